// Units in a cell of a list: the first few, each with its fence, and how many more there are.
import { count } from "../words";

const MOST = 6;

/** Each as `pool/unit#fence`, or `pool/unit@node#fence`. On narrow screens the fence, a long number, stands in the lease's own view only. */
export function UnitList({ units }: { units: readonly string[] }) {
  return (
    <>
      {units.slice(0, MOST).map((unit) => {
        const [name, fence] = unit.split("#", 2);
        return (
          <div class="mono">
            {name} {fence && <span class="dim wide">#{fence}</span>}
          </div>
        );
      })}
      {units.length > MOST && <div class="dim">and {count(units.length - MOST)} more</div>}
    </>
  );
}
