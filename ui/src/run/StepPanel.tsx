// One operation of a run: attempts, result, error, and what can be done from here.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { config } from "../app/config";
import { useKeys } from "../app/keys";
import { useMay } from "../app/Shell";
import { write } from "../lib/json";
import { recordedName, type Run, type Step, stepKey, stepState } from "../lib/state";
import { sizeOf } from "../lib/size";
import { absolute, between, clock, duration, millis, serverNow } from "../lib/time";
import { useUtc } from "../lib/zone";
import { JsonView } from "../parts/JsonView";
import { Payload } from "../parts/Payload";
import { Copy, css as parts, plain, Problem, StateChip, useNow } from "../parts/parts";
import { ForkDialog } from "./Actions";
import { forkable } from "./acts";
import { FailureView } from "./FailureView";
import { type Known, laterLines, PAGE } from "./lines";
import css from "./run.module.css";
import { triesOf } from "./tries";

interface Props {
  run: Run;
  step: Step;
  /// Which of the run's operations it is, from 0; not known before all have come.
  place?: number;
  /// The attempt that stands in the address, and a way to have another there.
  attempt?: string;
  onAttempt?: (attempt: string | undefined) => void;
  onClose: () => void;
  /// Somebody has just chosen it: where there is no room beside the timeline it is below it, and brought on the screen.
  isSought?: boolean;
  /// Of a run that is in a file nothing can be forked, or asked for.
  isAlone?: boolean;
}

/// Where a step stands below the timeline (run.module.css).
const NARROW = "(max-width: 900px)";

export function StepPanel({ run, step, place, attempt, onAttempt, onClose, isSought = false, isAlone = false }: Props) {
  const may = useMay("operate");
  const utc = useUtc();
  const [forking, setForking] = useState(false);
  const panel = useRef<HTMLElement>(null);
  // Wherever the focus is: who has chosen a step by a click still has it on its row.
  useKeys((key) => key === "Escape" && (onClose(), true));
  const key = stepKey(step);
  useEffect(() => {
    if (isSought && matchMedia(NARROW).matches) panel.current?.scrollIntoView({ block: "start" });
  }, [key, isSought]);
  const now = useNow();
  const state = stepState(step, run, now);
  const began = millis(step.began_at);
  const ended = millis(step.ended_at);
  const canFork = forkable([step]).length > 0;
  return (
    <aside className={css.panel} aria-label={`Step ${step.op === "undo" ? "undo " : ""}${step.name}`} ref={panel}>
      <div className={css.panelHead}>
        <h2>{step.op === "undo" ? "undo " : ""}{step.name}</h2>
        <StateChip state={state} />
        <button type="button" className={parts.bare} aria-label="Close the step" onClick={onClose}>✕</button>
      </div>
      <dl className={css.told}>
        <dt>Kind</dt><dd>{step.op}</dd>
        {place !== undefined && <><dt>Number</dt><dd>{place + 1}</dd></>}
        {began !== null && <><dt>Began</dt><dd>{absolute(began, utc)}</dd></>}
        {ended !== null && <><dt>Ended</dt><dd>{absolute(ended, utc)}</dd></>}
        {began !== null && <><dt>{ended === null ? "For" : "Took"}</dt><dd>{duration(between(began, ended ?? now))}</dd></>}
        {step.until && <><dt>Until</dt><dd>{absolute(millis(step.until)!, utc)}</dd></>}
        {step.child && <><dt>Child</dt><dd><Link to={`/runs/${step.child}` as string} className={parts.mono}>…{step.child.slice(-8)}</Link></dd></>}
      </dl>
      {!isAlone && <div className={css.bar2}>
        {may && canFork && <button type="button" className={`${parts.button} ${parts.small}`} onClick={() => setForking(true)}>Fork from here…</button>}
        {canFork && <Copy text={`outlast fork ${run.id} --from '${recordedName(step).replaceAll("'", "'\\''")}'`} label="copy as CLI" />}
        {canFork && <Copy text={curl(run, step)} label="copy as curl" />}
        <Copy text={location.href} label="copy link" />
      </div>}
      {TRIED.includes(step.op) && <Attempts run={run} step={step} chosen={attempt} onChoose={onAttempt} />}
      {step.error && <FailureView error={step.error} group={run.failure && step.error.message === run.error?.message ? run.failure : undefined} />}
      {step.state === "completed" && <div><h3>Result <small>{(step.previews?.result?.size ?? sizeOf(write(step.result ?? null))).toLocaleString("en")} bytes</small></h3><Payload run={run.id} of={stepKey(step)} name="result" value={step.result ?? null} preview={step.previews?.result} /></div>}
      {!isAlone && TRIED.includes(step.op) && <StepLogs run={run} step={step} />}
      <details><summary className={parts.muted}>raw</summary><JsonView value={step} name="step" /></details>
      {forking && <ForkDialog run={run} steps={[step]} from={recordedName(step)} onClose={() => setForking(false)} />}
    </aside>
  );
}

/// What is tried again when it fails.
const TRIED = ["step", "transaction", "job", "undo"];

function Attempts({ run, step, chosen, onChoose }: { run: Run; step: Step; chosen?: string; onChoose?: (attempt: string | undefined) => void }) {
  const utc = useUtc();
  const now = useNow();
  const tries = triesOf(run, step, now);
  if (!tries.length) return null;
  const isHeld = tries.some((one) => one.node);
  const isChosen = (number: number) => chosen === String(number);
  const error = step.attempts.find((one) => isChosen(one.number))?.error;
  return (
    <div>
      <h3>Attempts</h3>
      <div className={parts.scroll} tabIndex={0} role="region" aria-label="Attempts">
        <table className={parts.table}>
          <thead><tr><th>#</th><th>Began</th><th>Took</th><th>Then waited</th>{isHeld && <th>Node</th>}<th>Error</th></tr></thead>
          <tbody>
            {tries.map((one) => {
              const [began, ended, next] = [millis(one.began) ?? now, millis(one.ended), millis(one.next)];
              return (
                <tr key={one.number} data-on={isChosen(one.number)}>
                  <td>{onChoose ? <button type="button" className={parts.bare} aria-pressed={isChosen(one.number)} aria-label={`Attempt ${one.number}`} title="Have it in the address" onClick={() => onChoose(isChosen(one.number) ? undefined : String(one.number))}>{one.number}</button> : one.number}</td>
                  <td className={parts.nowrap} title={absolute(began, utc)}>{clock(began, now, utc)}</td>
                  <td className={parts.nowrap}>{ended === null ? "so far " : ""}{duration(between(began, ended ?? now))}</td>
                  <td className={parts.nowrap}>{ended !== null && next !== null && duration(between(ended, next))}</td>
                  {isHeld && <td>{one.node && <Link to={"/nodes/$id" as string} params={{ id: one.node } as never} className={parts.mono}>…{one.node.slice(-8)}</Link>}</td>}
                  <td className={css.why}>{one.error ?? <span className={parts.muted}>{one.state}</span>}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {/* What became of the last one stands below, as what became of the step. */}
      {error && <FailureView error={error} />}
    </div>
  );
}

/// The first lines that it logged; all of them are on the tab of the run's log.
const FEW = 100;

function StepLogs({ run, step }: { run: Run; step: Step }) {
  const client = useQueryClient();
  const utc = useUtc();
  // A job is the whole run; an undo has the name of what it reverts.
  const of = step.op === "job" ? undefined : step.op === "undo" ? stepKey(step) : step.name;
  const queryKey = ["run", run.id, "logs", "step", of];
  const logs = useQuery({
    queryKey,
    queryFn: ({ signal }) => {
      const page = async (after: number) => (await data(api.GET("/api/v1/runs/{id}/logs", { params: { path: { id: run.id }, query: { step: of, after, limit: PAGE } }, signal }))) as Schemas["Logs"];
      return laterLines(client.getQueryData<Known<Schemas["Log"]>>(queryKey), page, { wanted: FEW });
    },
    placeholderData: undefined, retry: false, structuralSharing: false,
  });
  if (logs.error) return <Problem error={logs.error} />;
  const known = logs.data?.lines ?? [];
  const lines = known.slice(0, FEW);
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
      {(known.length > FEW || !logs.data.isAll) && <p className={parts.muted}>{known.length > FEW ? "and more" : "and perhaps more"}: <Link to={`/runs/${run.id}` as string} search={{ tab: "logs", logstep: of } as never}>all of them</Link></p>}
    </div>
  );
}

/// The fork as a program asks for it; a dry run, so that nobody forks by pasting.
function curl(run: Run, step: Step): string {
  const body = JSON.stringify({ from: recordedName(step), dry_run: true }).replaceAll("'", "'\\''");
  const url = new URL(`${config.base}api/v1/runs/${run.id}/fork`, location.href);
  return `curl -X POST '${url.href}' -H 'content-type: application/json' -H "authorization: Bearer $OUTLAST_TOKEN" -d '${body}'`;
}
