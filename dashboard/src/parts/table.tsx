// One kind of table for all lists.
import type { ComponentChildren } from "preact";

export interface Column<Row> {
  name: string;
  cell: (row: Row) => ComponentChildren;
  number?: boolean;
  /** words of people, which may be long: broken anywhere; all else keeps to its line */
  text?: boolean;
  /** left out on narrow screens */
  wide?: boolean;
}

interface Props<Row> {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  id: (row: Row) => string;
  /** what a click on a row, or its button, does */
  choose?: ((row: Row) => void) | undefined;
}

export function Rows<Row>({ label, rows, columns, id, choose }: Props<Row>) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th scope="col" class={kind(column)}>
                {column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={id(row)} class={choose ? "chosen-by-click" : ""} onClick={choose && (() => choose(row))}>
              {columns.map((column, place) => (
                <td class={kind(column)}>
                  {choose && place === 0 ? (
                    <button
                      type="button"
                      class="plain"
                      onClick={(event) => {
                        event.stopPropagation();
                        choose(row);
                      }}
                    >
                      {column.cell(row)}
                    </button>
                  ) : (
                    column.cell(row)
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function kind<Row>(column: Column<Row>): string {
  return [column.number ? "number" : "", column.text ? "text" : "", column.wide ? "wide" : ""].join(" ").trim();
}
