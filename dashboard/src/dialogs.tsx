// One claim or one lease in full, and the way to take a lease away with a reason.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { kick, leaseOf, waitOf } from "./api";
import { WithReason } from "./parts/reason";
import { place, passes } from "./pages/waits";
import { ends } from "./pages/leases";
import { named, type Lease, type Wait } from "./rows";
import { changes, may, nowMs, open, opened } from "./state";
import { clock, length, short, some } from "./words";

/** A lease may have thousands. */
const UNITS_MOST = 12;

export function Dialogs() {
  const what = opened.value;
  if (!what) return null;
  if (what.kind === "keys") return <Keys />;
  return what.kind === "wait" ? <Claim key={what.id} id={what.id} /> : <OneLease key={what.id} id={what.id} />;
}

function Claim({ id }: { id: string }) {
  const wait = useFresh(id, waitOf);
  return <Dialog title={`Claim ${short(id)}`}>{wait ? <WaitInFull wait={wait} /> : <Over known={wait} what="It waits no longer" />}</Dialog>;
}

function OneLease({ id }: { id: string }) {
  const lease = useFresh(id, leaseOf);
  return <Dialog title={`Lease ${short(id)}`}>{lease ? <LeaseInFull lease={lease} /> : <Over known={lease} what="It has ended" />}</Dialog>;
}

function Over({ known, what }: { known: null | undefined; what: string }) {
  return <p>{known === undefined ? "reading…" : `${what}: the history tells how.`}</p>;
}

/** What the node says of it, read again after changes; undefined before the first answer. */
function useFresh<Row>(id: string, read: (id: string) => Promise<Row | null>): Row | null | undefined {
  const [found, show] = useState<Row | null | undefined>(undefined);
  const changed = changes.value;
  useEffect(() => {
    let over = false;
    read(id).then(
      (row) => over || show(row),
      () => over || show(null),
    );
    return () => {
      over = true;
    };
  }, [id, changed]);
  return found;
}

function Dialog({ title, children }: { title: string; children: ComponentChildren }) {
  const place = useRef<HTMLDialogElement>(null);
  useEffect(() => place.current?.showModal(), []);
  return (
    <dialog ref={place} aria-label={title} onClose={() => open(null)}>
      <h2>{title}</h2>
      {children}
      <form method="dialog" class="buttons" style={{ marginTop: "1rem" }}>
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}

function WaitInFull({ wait }: { wait: Wait }) {
  return (
    <dl>
      <dt>holder</dt>
      <dd>{wait.holder}</dd>
      {wait.reason && (
        <>
          <dt>reason</dt>
          <dd>{wait.reason}</dd>
        </>
      )}
      <dt>waits</dt>
      <dd>
        {length(nowMs.value - wait.since_ms)}, since {clock(wait.since_ms, nowMs.value)}, at {wait.node}
      </dd>
      <dt>place</dt>
      <dd>{place(wait)}</dd>
      <dt>needs</dt>
      <dd>
        {wait.needs.map((need) => (
          <div class="mono">
            {need.spec} {need.state} ({need.free} of {need.total} free)
          </div>
        ))}
      </dd>
      <dt>blocked by</dt>
      <dd>
        {wait.blockers.map((one) => (
          <div>
            {one.holder || named(one)} {one.reason && `“${one.reason}”`} ({one.units.join(", ") || one.pool} on {one.node}
            {one.waiting ? ", waits and is older" : one.until_ms ? `, until ${clock(one.until_ms, nowMs.value)}` : one.renewing ? ", renewing" : ""})
          </div>
        ))}
        {wait.blockers_more > 0 && <div>and {wait.blockers_more} more</div>}
        {!wait.blockers.length && "nobody"}
      </dd>
      <dt>can be passed by</dt>
      <dd>
        {passes(wait)} (passed so far: {wait.overtaken})
      </dd>
      {wait.note && (
        <>
          <dt>note</dt>
          <dd>{wait.note}</dd>
        </>
      )}
    </dl>
  );
}

function LeaseInFull({ lease }: { lease: Lease }) {
  return (
    <>
      <dl>
        <dt>holder</dt>
        <dd>
          {lease.holder}
          {lease.pid ? `, process ${lease.pid}` : ""}
        </dd>
        <dt>reason</dt>
        <dd>{lease.reason || "none given"}</dd>
        <dt>units</dt>
        <dd>
          {lease.units.slice(0, UNITS_MOST).map((unit) => (
            <div class="mono">
              {unit.pool}/{unit.name} on {unit.node}, fence {unit.fence}
            </div>
          ))}
          {lease.units.length > UNITS_MOST && <div>and {some(lease.units.length - UNITS_MOST, "unit")} more</div>}
        </dd>
        <dt>since</dt>
        <dd>
          {clock(lease.since_ms, nowMs.value)}, after waiting {length(lease.waited_ms)}
        </dd>
        <dt>until</dt>
        <dd>{ends(lease, nowMs.value)}</dd>
        <dt>kept alive by</dt>
        <dd>{lease.node}</dd>
      </dl>
      {may("kick") && (
        <WithReason
          text="Take this lease away. Its command is stopped, its units go to who waits."
          button="Force release"
          send={async (reason) => {
            await kick(lease, reason);
            open(null);
          }}
        />
      )}
    </>
  );
}

function Keys() {
  return (
    <Dialog title="Keys">
      <dl>
        <dt>
          <kbd>1</kbd> to <kbd>8</kbd>
        </dt>
        <dd>the pages, from the first to the last</dd>
        <dt>
          <kbd>/</kbd>
        </dt>
        <dd>search</dd>
        <dt>
          <kbd>t</kbd>
        </dt>
        <dd>light or dark</dd>
        <dt>
          <kbd>Esc</kbd>
        </dt>
        <dd>close, or empty the search</dd>
        <dt>
          <kbd>?</kbd>
        </dt>
        <dd>this list</dd>
      </dl>
    </Dialog>
  );
}
