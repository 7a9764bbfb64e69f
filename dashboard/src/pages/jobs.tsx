// Jobs: how far each is; of one, its tasks as a graph, what each waits for, and the way to cancel it with a reason.
import { useMemo } from "preact/hooks";
import { WithReason } from "../parts/reason";
import { cancelJob, jobOf, jobs, type Job, type Instance, type JobRow, type Task } from "../jobs";
import { Graph, type Edge, type Node } from "../parts/graph";
import { usePolled } from "../parts/polled";
import { Rows, type Column } from "../parts/table";
import { UnitList } from "../parts/units";
import { matches, may, nowMs, shown, who } from "../state";
import { clock, length, short } from "../words";

const EVERY_MS = 1500;

export function Jobs() {
  return shown.value ? <OneJob key={shown.value} id={shown.value} /> : <AllJobs />;
}

function AllJobs() {
  const { found, said } = usePolled("jobs", jobs, EVERY_MS);
  const rows = found?.filter((job) => matches(job.job, short(job.job), job.name, job.user, job.state, job.text)) ?? [];
  return (
    <>
      <h2>Jobs</h2>
      {said && <p class="bad" role="alert">{said}</p>}
      {!found && !said && <p class="empty">reading…</p>}
      {found && !rows.length && (
        <p class="empty">{found.length ? "Nothing matches the search." : "No job was started on this node. Start one: holdall job run FILE"}</p>
      )}
      {rows.length > 0 && (
        <Rows label="jobs" rows={rows} columns={COLUMNS} id={(job) => job.job} choose={(job) => (location.hash = `jobs/${job.job}`)} />
      )}
    </>
  );
}

const COLUMNS: Column<JobRow>[] = [
  { name: "job", cell: (job) => <code>{short(job.job)}</code> },
  { name: "name", cell: (job) => job.name, text: true },
  { name: "state", cell: (job) => <State of={job.state} /> },
  { name: "tasks over", cell: (job) => <Progress job={job} /> },
  { name: "began", cell: (job) => clock(job.started_ms, nowMs.value), number: true, wide: true },
  { name: "took", cell: took, number: true, wide: true },
  { name: "user", cell: (job) => job.user, wide: true },
  { name: "said", cell: (job) => job.text || job.cancel, text: true, wide: true },
];

const LOOKS: Record<string, string> = { succeeded: "free", ok: "free", running: "held", pausing: "held", failed: "bad" };

function State({ of }: { of: string }) {
  return <span class={`state ${LOOKS[of] ?? "dim"}`}>{of}</span>;
}

function Progress({ job }: { job: JobRow }) {
  const said = `${job.done} of ${job.total}`;
  return (
    <div class="use">
      {said}
      <div class="bar" role="img" aria-label={`${said} tasks are over`}>
        <i class="free" style={{ width: `${(100 * job.done) / Math.max(1, job.total)}%` }} />
      </div>
    </div>
  );
}

function took(job: JobRow): string {
  return length((job.ended_ms ?? nowMs.value) - job.started_ms);
}

function OneJob({ id }: { id: string }) {
  const { found, said, again } = usePolled(id, () => jobOf(id), EVERY_MS);
  return (
    <>
      <p>
        <a href="#jobs">‹ all jobs</a>
      </p>
      {said && <p class="bad" role="alert">{said}</p>}
      {!found && !said && <p class="empty">reading…</p>}
      {found && <InFull job={found} again={again} />}
    </>
  );
}

function InFull({ job, again }: { job: Job; again: () => void }) {
  const { nodes, edges } = useMemo(() => graphOf(job.tasks), [job.tasks]);
  return (
    <>
      <h2>
        {job.name} <span class="dim">{short(job.job)}</span>
      </h2>
      <p>
        <State of={job.state} />, {job.done} of {job.total} tasks over, {job.user} on {job.node}, since {clock(job.started_ms, nowMs.value)} ({took(job)})
        {job.text && <>: {job.text}</>}
        {job.cancel && <>. Cancelled: {job.cancel}</>}
      </p>
      <Graph label={`tasks of ${job.name}`} nodes={nodes} edges={edges} />
      <h3 class="next">Tasks</h3>
      <Rows label="tasks" rows={job.tasks} columns={TASKS} id={(task) => task.task} />
      {job.state === "running" && !job.cancel && (may("kick") || (may("claim") && who.value?.user === job.user)) && (
        <WithReason
          text="Cancel this job: nothing more begins, what runs is stopped."
          button="Cancel the job"
          send={async (reason) => {
            await cancelJob(job.job, reason);
            again();
          }}
        />
      )}
    </>
  );
}

const TASKS: Column<Task>[] = [
  { name: "task", cell: (task) => task.task, text: true },
  { name: "state", cell: (task) => <State of={task.state} /> },
  { name: "does, waits for, came to", cell: (task) => (task.text === task.state ? "" : task.text), text: true },
  {
    name: "items",
    text: true,
    wide: true,
    cell: (task) => task.instances.length > 1 && task.instances.map((one) => <div>{itemOf(one)}</div>),
  },
  { name: "leases", cell: leasesOf },
  { name: "when", cell: (task) => task.when && <code>{task.when}</code>, text: true, wide: true },
];

/** `test[arm64] · running`, and what it waits for, if that says more. */
function itemOf(one: Instance): string {
  return [one.name, one.state, one.note === one.state ? "" : one.note].filter(Boolean).join(" · ");
}

/** What the latest attempt of each instance holds, on whichever node, or has held. */
function leasesOf(task: Task) {
  const latest = task.instances.flatMap((one) => one.attempts.slice(-1)).filter((one) => one.lease);
  return latest.map((one) => (
    <div class={one.ended_ms === null ? undefined : "dim"}>
      <code>{short(one.lease)}</code>
      <UnitList units={one.units} />
    </div>
  ));
}

const KINDS: Record<string, Node["kind"]> = { ok: "done", failed: "failed", running: "running", pausing: "running", waiting: "waiting" };

/** Arrows run from a task to those that it comes after, as everywhere from who waits to what is waited for. */
function graphOf(tasks: readonly Task[]): { nodes: Node[]; edges: Edge[] } {
  const nodes = tasks.map((task) => ({
    id: task.task,
    title: task.instances.length > 1 ? `${task.task} ×${task.instances.length}` : task.task,
    text: task.text || task.state,
    kind: KINDS[task.state] ?? "task",
  }));
  const edges = tasks.flatMap((task) => task.after.map((before) => ({ from: task.task, to: before, text: "" })));
  return { nodes, edges };
}
