// One operation of a run: attempts, result, error, and what can be done from here.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { config } from "../app/config";
import { useMay } from "../app/Shell";
import { write } from "../lib/json";
import type { Run, State, Step } from "../lib/state";
import { STATES } from "../lib/state";
import { absolute, between, duration, millis } from "../lib/time";
import { JsonView } from "../parts/JsonView";
import { Copy, css as parts, StateChip } from "../parts/parts";
import { ForkDialog } from "./Actions";
import css from "./run.module.css";

export function StepPanel({ run, step, onClose }: { run: Run; step: Step; onClose: () => void }) {
  const may = useMay("operate");
  const [forking, setForking] = useState(false);
  const state = (step.state in STATES ? step.state : "running") as State;
  const began = millis(step.began_at);
  const ended = millis(step.ended_at);
  return (
    <aside className={css.panel} aria-label={`Step ${step.name}`} onKeyDown={(event) => event.key === "Escape" && !forking && onClose()}>
      <div className={css.panelHead}>
        <h2>{step.name}</h2>
        <StateChip state={state} />
        <button type="button" className={parts.bare} aria-label="Close the step" onClick={onClose}>✕</button>
      </div>
      <div className={parts.muted}>
        {step.op}{began !== null && <>, began {absolute(began)}</>}{began !== null && ended !== null && <>, took {duration(between(began, ended))}</>}
        {step.until && <>, until {absolute(millis(step.until)!)}</>}
        {step.child && <>, <Link to={`/runs/${step.child}` as string}>the child …{step.child.slice(-8)}</Link></>}
      </div>
      <div className={css.bar2}>
        {may && <button type="button" className={`${parts.button} ${parts.small}`} onClick={() => setForking(true)}>Fork from here…</button>}
        <Copy text={`outlast fork ${run.id} --from '${step.name.replaceAll("'", "'\\''")}'`} label="copy as CLI" />
        <Copy text={curl(run, step)} label="copy as curl" />
        <Copy text={location.href} label="copy link" />
      </div>
      {step.attempts.length > 0 && (
        <div>
          <h3>Failed attempts</h3>
          <table className={parts.table}>
            <thead><tr><th>#</th><th>Took</th><th>Then waited</th><th>Error</th></tr></thead>
            <tbody>
              {step.attempts.map((attempt) => (
                <tr key={attempt.number}>
                  <td>{attempt.number}</td>
                  <td className={parts.nowrap}>{duration(between(millis(attempt.began_at) ?? 0, millis(attempt.failed_at) ?? 0))}</td>
                  <td className={parts.nowrap}>{duration(between(millis(attempt.failed_at) ?? 0, millis(attempt.next_at) ?? 0))}</td>
                  <td>{attempt.error.message}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {step.error && <div><h3>Error</h3><div className={css.error}>{step.error.message}</div><details><summary className={parts.muted}>whole error</summary><JsonView value={step.error.detail} name="error" /></details></div>}
      {step.state === "completed" && <div><h3>Result <small>{write(step.result ?? null).length.toLocaleString("en")} bytes</small></h3><JsonView value={step.result ?? null} name="result" /></div>}
      {forking && <ForkDialog run={run} steps={[step]} from={step.name} onClose={() => setForking(false)} />}
    </aside>
  );
}

/// The fork as a program asks for it; a dry run, so that nobody forks by pasting.
function curl(run: Run, step: Step): string {
  const body = JSON.stringify({ from: step.name, dry_run: true }).replaceAll("'", "'\\''");
  const url = new URL(`${config.base}api/v1/runs/${run.id}/fork`, location.href);
  return `curl -X POST '${url.href}' -H 'content-type: application/json' -H "authorization: Bearer $OUTLAST_TOKEN" -d '${body}'`;
}
