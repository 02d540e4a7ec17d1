// One thing done to the runs that somebody chose: a bulk of those runs, after saying what would happen to how many.
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { data, type Once, type Schemas } from "../api/client";
import type { Run } from "../lib/state";
import { Ask, Field, ReasonField } from "../parts/Ask";
import { css, Problem } from "../parts/parts";
import { type BulkOp, DANGER, likeliest, MEANS, NEEDS_REASON, OPS, Preview, previewOf } from "./BulkDialog";

/// What the server takes at once.
const MOST = 1000;

export function SelectedDialog({ runs: chosen, onClose, onDone }: { runs: Run[]; onClose: () => void; onDone: () => void }) {
  const navigate = useNavigate();
  // As they were chosen: one that is gone from the list meanwhile must not make them others.
  const [runs] = useState(chosen);
  const [op, setOp] = useState<BulkOp>(() => likeliest(runs.map((run) => run.status)));
  const [reason, setReason] = useState("");
  const ids = runs.map((run) => run.id);
  const ask = { op, filter: "", ids };
  const preview = useQuery(previewOf(ask, runs.length > 0 && runs.length <= MOST));
  const act = async (once: Once) => {
    const made = (await data(once.POST("/api/v1/bulk", { body: { ...ask, reason: reason || undefined } as never }))) as Schemas["Bulk"];
    onDone();
    void navigate({ to: `/bulk/${made.id}` as string });
  };
  const word = op[0]!.toUpperCase() + op.slice(1);
  const many = (count: number) => (count === 1 ? "1 run" : `${count.toLocaleString("en")} runs`);
  // Those to which this cannot be done at all are not among what the server looks at.
  const found = preview.data;
  return (
    <Ask title={`Act on ${many(runs.length)}`} action={found ? `${word} ${many(found.acts)}` : "…"} danger={DANGER.includes(op)} disabled={!found?.acts} onDo={act} onClose={onClose}>
      <Field label="What">
        <select className={css.input} value={op} onChange={(event) => setOp(event.target.value as typeof op)}>{OPS.map((one) => <option key={one}>{one}</option>)}</select>
      </Field>
      <p>{MEANS[op]}</p>
      {runs.length > MOST && <p>At most {MOST.toLocaleString("en")} runs can be chosen: narrow the list, and act on all that fit.</p>}
      <Problem error={preview.error} />
      {found && <Preview found={found} stays={runs.length - found.acts} />}
      <ReasonField value={reason} onChange={setReason} required={NEEDS_REASON.includes(op)} />
    </Ask>
  );
}
