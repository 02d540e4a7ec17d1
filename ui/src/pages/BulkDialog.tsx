// One thing done to all runs that fit: first what would happen to how many, then a reason, then it.
import { queryOptions, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { data, looks, type Once, type Schemas } from "../api/client";
import { bulkWords, type Term } from "../lib/filter";
import { Ask, Field, ReasonField } from "../parts/Ask";
import { css, Problem } from "../parts/parts";

export const OPS = ["cancel", "pause", "resume", "retry", "kill", "delete"] as const;
export type BulkOp = (typeof OPS)[number];
export const NEEDS_REASON: BulkOp[] = ["cancel", "pause", "kill", "delete"];
/// Those after which something is not as it was.
export const DANGER: BulkOp[] = ["cancel", "kill", "delete"];
export const MEANS: Record<BulkOp, string> = {
  cancel: "They are asked to stop, and revert what they did where their code says how.",
  pause: "They are held back until somebody resumes them.",
  resume: "They go on as if nothing had been.",
  retry: "Each is tried again from where it went wrong.",
  kill: "They end at once. Nothing of what they did is reverted.",
  delete: "Those that have ended are gone for good, with their steps, results and logs. Nothing that they did is reverted.",
};

/// How it is asked what would happen to how many: when somebody opens the dialog or wants another thing, and not again with what comes live.
/// What stands on the button is what they press.
export function previewOf(body: object, isEnabled = true) {
  return queryOptions({
    queryKey: ["preview", body],
    queryFn: async () => (await data(looks.POST("/api/v1/bulk", { body: { ...body, dry_run: true, reason: "preview" } as never }))) as Schemas["BulkPreview"],
    enabled: isEnabled, staleTime: "static", gcTime: 0, placeholderData: undefined, retry: false,
  });
}

/// What would happen to how many, with some of them.
export function Preview({ found, stays: staying = found.stays }: { found: Schemas["BulkPreview"]; stays?: number }) {
  const shown = found.runs.slice(0, 5);
  const stays = staying === 1 ? ", 1 stays as it is" : staying ? `, ${staying.toLocaleString("en")} stay as they are` : "";
  return (
    <div>
      <p><strong>{found.acts.toLocaleString("en")}{found.is_all ? "" : "+"}</strong> would change{stays}.{shown.length > 0 && shown.length < found.runs.length ? " For example:" : ""}</p>
      <ul>{shown.map((run) => <li key={run.run}>{run.definition} {run.key ?? `…${run.run.slice(-8)}`} <span className={css.muted}>({run.status})</span></li>)}</ul>
    </div>
  );
}

/// What is likeliest to be meant for runs of these states: the server refuses what can be done to none of them.
export function likeliest(statuses: string[]): BulkOp {
  const are = (...some: string[]) => statuses.length > 0 && statuses.every((status) => some.includes(status));
  return are("failed") ? "retry" : are("failed", "completed", "cancelled") ? "delete" : are("paused") ? "resume" : "cancel";
}

export function BulkDialog({ terms, failure = terms.find((term) => term.field === "failure")?.value, first = likeliest(terms.filter((term) => term.field === "status").map((term) => term.value)), onClose }: { terms: Term[]; failure?: string; first?: BulkOp; onClose: () => void }) {
  const navigate = useNavigate();
  const [op, setOp] = useState<BulkOp>(first);
  const [reason, setReason] = useState("");
  const filter = bulkWords(terms);
  const ask = { op, filter: filter ?? "", failure, all: !terms.length };
  const preview = useQuery(previewOf(ask, filter !== null));
  const start = async (once: Once) => {
    const made = (await data(once.POST("/api/v1/bulk", { body: { ...ask, dry_run: false, reason: reason || undefined } as never }))) as Schemas["Bulk"];
    void navigate({ to: `/bulk/${made.id}` as string });
  };
  // What failed alike has failed.
  const which = failure ? bulkWords(terms.filter((term) => term.field !== "status" || term.value !== "failed")) : filter;
  const found = preview.data;
  const count = found ? found.acts.toLocaleString("en") + (found.is_all ? "" : "+") : "…";
  return (
    <Ask title={terms.length ? "Act on all runs that fit" : "Act on all runs"} action={found ? `${op[0]!.toUpperCase()}${op.slice(1)} ${count} ${count === "1" ? "run" : "runs"}` : "…"} danger={DANGER.includes(op)} disabled={!found?.acts} onDo={start} onClose={onClose}>
      {terms.length > 0 && <p>Which: {which && <code>{which}</code>}{failure && " those that failed alike"}</p>}
      {filter === null && <Problem error={new Error("A bulk cannot be narrowed by an id: leave that away.")} />}
      <Field label="What">
        <select className={css.input} value={op} onChange={(event) => setOp(event.target.value as BulkOp)}>
          {OPS.map((one) => <option key={one}>{one}</option>)}
        </select>
      </Field>
      <p>{MEANS[op]}</p>
      <Problem error={preview.error} />
      {found && <Preview found={found} />}
      <ReasonField value={reason} onChange={setReason} required={NEEDS_REASON.includes(op)} />
    </Ask>
  );
}
