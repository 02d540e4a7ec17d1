// One operation of a run: attempts, result, error, and what can be done from here.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { config } from "../app/config";
import { useMay } from "../app/Shell";
import { write } from "../lib/json";
import type { Run, State, Step } from "../lib/state";
import { recordedName, STATES, stepKey } from "../lib/state";
import { sizeOf } from "../lib/size";
import { absolute, between, clock, duration, millis, serverNow } from "../lib/time";
import { useUtc } from "../lib/zone";
import { JsonView } from "../parts/JsonView";
import { Copy, css as parts, plain, Problem, StateChip } from "../parts/parts";
import { ForkDialog } from "./Actions";
import { forkable } from "./acts";
import { firstLines, PAGE } from "./lines";
import css from "./run.module.css";

/// Of a run that is in a file nothing can be forked, or asked for.
export function StepPanel({ run, step, onClose, isAlone = false }: { run: Run; step: Step; onClose: () => void; isAlone?: boolean }) {
  const may = useMay("operate");
  const utc = useUtc();
  const [forking, setForking] = useState(false);
  const state = (step.state in STATES ? step.state : "running") as State;
  const began = millis(step.began_at);
  const ended = millis(step.ended_at);
  const canFork = forkable([step]).length > 0;
  return (
    <aside className={css.panel} aria-label={`Step ${step.op === "undo" ? "undo " : ""}${step.name}`} onKeyDown={(event) => event.key === "Escape" && !forking && onClose()}>
      <div className={css.panelHead}>
        <h2>{step.op === "undo" ? "undo " : ""}{step.name}</h2>
        <StateChip state={state} />
        <button type="button" className={parts.bare} aria-label="Close the step" onClick={onClose}>✕</button>
      </div>
      <div className={parts.muted}>
        {step.op}{began !== null && <>, began {absolute(began, utc)}</>}{began !== null && ended !== null && <>, took {duration(between(began, ended))}</>}
        {step.until && <>, until {absolute(millis(step.until)!, utc)}</>}
        {step.child && <>, <Link to={`/runs/${step.child}` as string}>the child …{step.child.slice(-8)}</Link></>}
      </div>
      {!isAlone && <div className={css.bar2}>
        {may && canFork && <button type="button" className={`${parts.button} ${parts.small}`} onClick={() => setForking(true)}>Fork from here…</button>}
        {canFork && <Copy text={`outlast fork ${run.id} --from '${recordedName(step).replaceAll("'", "'\\''")}'`} label="copy as CLI" />}
        {canFork && <Copy text={curl(run, step)} label="copy as curl" />}
        <Copy text={location.href} label="copy link" />
      </div>}
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
      {step.state === "completed" && <div><h3>Result <small>{sizeOf(write(step.result ?? null)).toLocaleString("en")} bytes</small></h3><JsonView value={step.result ?? null} name="result" /></div>}
      {!isAlone && ["step", "transaction", "job", "undo"].includes(step.op) && <StepLogs run={run} step={step} />}
      <details><summary className={parts.muted}>raw</summary><JsonView value={step} name="step" /></details>
      {forking && <ForkDialog run={run} steps={[step]} from={recordedName(step)} onClose={() => setForking(false)} />}
    </aside>
  );
}

/// The first lines that it logged; all of them are on the tab of the run's log.
const FEW = 100;

function StepLogs({ run, step }: { run: Run; step: Step }) {
  const utc = useUtc();
  // A job is the whole run; an undo has the name of what it reverts.
  const of = step.op === "job" ? undefined : step.op === "undo" ? stepKey(step) : step.name;
  const logs = useQuery({
    queryKey: ["run", run.id, "logs", "step", of],
    queryFn: ({ signal }) => firstLines(FEW, async (after) => (await data(api.GET("/api/v1/runs/{id}/logs", { params: { path: { id: run.id }, query: { step: of, after, limit: PAGE } }, signal }))) as Schemas["Logs"]),
    placeholderData: undefined, retry: false,
  });
  if (logs.error) return <Problem error={logs.error} />;
  const lines = logs.data?.lines ?? [];
  if (!logs.data || !lines.length) return null;
  const now = serverNow();
  return (
    <div>
      <h3>Logs</h3>
      <div className={css.logs} role="log" aria-label={`Log of ${step.name}`} tabIndex={0} style={{ maxHeight: 220 }}>
        {lines.map((line, nth) => (
          <div key={nth} className={css.log}><span className={parts.muted} title={absolute(millis(line.at) ?? now, utc)}>{clock(millis(line.at) ?? now, now, utc)}</span><span>{line.level}</span><span>{plain(line.message)}</span></div>
        ))}
      </div>
      {!logs.data.isAll && <p className={parts.muted}>and perhaps more: <Link to={`/runs/${run.id}` as string} search={{ tab: "logs" } as never}>the whole log</Link></p>}
    </div>
  );
}

/// The fork as a program asks for it; a dry run, so that nobody forks by pasting.
function curl(run: Run, step: Step): string {
  const body = JSON.stringify({ from: recordedName(step), dry_run: true }).replaceAll("'", "'\\''");
  const url = new URL(`${config.base}api/v1/runs/${run.id}/fork`, location.href);
  return `curl -X POST '${url.href}' -H 'content-type: application/json' -H "authorization: Bearer $OUTLAST_TOKEN" -d '${body}'`;
}
