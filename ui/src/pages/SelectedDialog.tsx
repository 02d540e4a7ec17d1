// One thing done to the runs that somebody chose: a bulk of those runs.
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas } from "../api/client";
import type { Run } from "../lib/state";
import { Ask, Field, ReasonField } from "../parts/Ask";
import { css } from "../parts/parts";
import { type BulkOp, DANGER, MEANS, NEEDS_REASON, OPS } from "./BulkDialog";

/// What the server takes at once.
const MOST = 1000;

export function SelectedDialog({ runs, onClose, onDone }: { runs: Run[]; onClose: () => void; onDone: () => void }) {
  const navigate = useNavigate();
  const [op, setOp] = useState<BulkOp>("cancel");
  const [reason, setReason] = useState("");
  const act = async () => {
    const body = { op, filter: "", ids: runs.map((run) => run.id), reason: reason || undefined };
    const made = (await data(api.POST("/api/v1/bulk", { body: body as never }))) as Schemas["Bulk"];
    onDone();
    void navigate({ to: `/bulk/${made.id}` as string });
  };
  const word = op[0]!.toUpperCase() + op.slice(1);
  const many = runs.length === 1 ? "1 run" : `${runs.length} runs`;
  return (
    <Ask title={`Act on ${many}`} action={`${word} ${many}`} danger={DANGER.includes(op)} disabled={runs.length > MOST} onDo={act} onClose={onClose}>
      <Field label="What">
        <select className={css.input} value={op} onChange={(event) => setOp(event.target.value as typeof op)}>{OPS.map((one) => <option key={one}>{one}</option>)}</select>
      </Field>
      <p>{MEANS[op]}</p>
      {runs.length > MOST && <p>At most {MOST.toLocaleString("en")} runs can be chosen: narrow the list, and act on all that fit.</p>}
      <ul>{runs.slice(0, 5).map((run) => <li key={run.id}>{run.definition} {run.key ?? `…${run.id.slice(-8)}`} <span className={css.muted}>({run.status})</span></li>)}{runs.length > 5 && <li className={css.muted}>and {runs.length - 5} more</li>}</ul>
      <ReasonField value={reason} onChange={setReason} required={NEEDS_REASON.includes(op)} />
    </Ask>
  );
}
