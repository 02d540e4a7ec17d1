// One thing done to the runs that somebody chose, one after the other; what is refused is said, with why.
import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, data } from "../api/client";
import type { Run } from "../lib/state";
import { Ask, Field, ReasonField } from "../parts/Ask";
import { css } from "../parts/parts";

const OPS = ["cancel", "pause", "resume", "retry", "kill", "delete"] as const;
const NEEDS_REASON: string[] = ["cancel", "kill", "delete"];
const MEANS: Record<(typeof OPS)[number], string> = {
  cancel: "They are asked to stop, and revert what they did where their code says how.",
  pause: "They are held back until somebody resumes them.",
  resume: "They go on as if nothing had been.",
  retry: "Each is tried again from where it went wrong.",
  kill: "They end at once. Nothing of what they did is reverted.",
  delete: "The runs and all that they recorded are gone for good.",
};

export function SelectedDialog({ runs, onClose, onDone }: { runs: Run[]; onClose: () => void; onDone: () => void }) {
  const client = useQueryClient();
  const [op, setOp] = useState<(typeof OPS)[number]>("cancel");
  const [reason, setReason] = useState("");
  const [done, setDone] = useState(0);
  const [refused, setRefused] = useState<[Run, string][] | null>(null);
  const act = async () => {
    const failed: [Run, string][] = [];
    for (const run of runs) {
      const path = { id: run.id };
      try {
        if (op === "delete") await data(api.DELETE("/api/v1/runs/{id}", { params: { path, query: { reason: reason || undefined } } }));
        else await data(api.POST(`/api/v1/runs/{id}/${op}` as "/api/v1/runs/{id}/cancel", { params: { path }, body: { reason: reason || undefined } as never }));
      } catch (error) {
        failed.push([run, error instanceof Error ? error.message : String(error)]);
      }
      setDone((before) => before + 1);
    }
    await client.invalidateQueries({ queryKey: ["runs"] });
    onDone();
    if (failed.length) {
      setRefused(failed);
      throw new Error(`${failed.length} of ${runs.length} were refused.`);
    }
  };
  const word = op[0]!.toUpperCase() + op.slice(1);
  const many = runs.length === 1 ? "1 run" : `${runs.length} runs`;
  return (
    <Ask title={`Act on ${many}`} action={`${word} ${many}`} danger={NEEDS_REASON.includes(op)} disabled={refused !== null} onDo={act} onClose={onClose}>
      <Field label="What">
        <select className={css.input} value={op} onChange={(event) => setOp(event.target.value as typeof op)}>{OPS.map((one) => <option key={one}>{one}</option>)}</select>
      </Field>
      <p>{MEANS[op]}</p>
      <ul>{runs.slice(0, 5).map((run) => <li key={run.id}>{run.definition} {run.key ?? `…${run.id.slice(-8)}`} <span className={css.muted}>({run.status})</span></li>)}{runs.length > 5 && <li className={css.muted}>and {runs.length - 5} more</li>}</ul>
      <ReasonField value={reason} onChange={setReason} required={NEEDS_REASON.includes(op)} />
      {done > 0 && <div className={css.bar} role="progressbar" aria-label="Progress" aria-valuenow={done} aria-valuemin={0} aria-valuemax={runs.length}><span style={{ width: `${(100 * done) / runs.length}%` }} /></div>}
      {refused && <ul>{refused.slice(0, 20).map(([run, why]) => <li key={run.id}><Link to={`/runs/${run.id}` as string}>{run.key ?? `…${run.id.slice(-8)}`}</Link>: {why}</li>)}</ul>}
    </Ask>
  );
}
