// A run that is in a file and perhaps in no database here: somebody sent it. The server says what the file tells, and keeps
// nothing of it.
import { useLayoutEffect, useState } from "react";
import { data, looks, type Schemas } from "../api/client";
import { isFinal, type Run, stateOf, stepOf } from "../lib/state";
import { css as parts, Head, Note, Problem, StateChip, useNow } from "../parts/parts";
import { Ended } from "./Header";
import { HistoryTable } from "./History";
import type { Shown } from "./opened";
import css from "./run.module.css";
import { Payloads } from "./RunPage";
import { StepPanel } from "./StepPanel";
import { Timeline } from "./Timeline";

export function ImportPage() {
  const [read, setRead] = useState<Schemas["ReadRun"] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isOver, setOver] = useState(false);
  const open = async (file: File | undefined) => {
    if (!file) return;
    setError(null);
    try {
      // As it is: whether it is JSON is said by the server, which reads it anyway.
      setRead(await data(looks.POST("/api/v1/runs/read", { body: (await file.text()) as never, bodySerializer: (text: unknown) => text as string })));
    } catch (found) {
      setRead(null);
      setError(found);
    }
  };
  // Anywhere on the page: a browser opens what is dropped beside it, and the dashboard is gone.
  useLayoutEffect(() => {
    const over = (event: DragEvent) => (event.preventDefault(), setOver(true));
    const leave = (event: DragEvent) => !event.relatedTarget && setOver(false);
    const drop = (event: DragEvent) => {
      event.preventDefault();
      setOver(false);
      void open(event.dataTransfer?.files[0]);
    };
    document.addEventListener("dragover", over);
    document.addEventListener("dragleave", leave);
    document.addEventListener("drop", drop);
    return () => {
      document.removeEventListener("dragover", over);
      document.removeEventListener("dragleave", leave);
      document.removeEventListener("drop", drop);
    };
  }, []);
  return (
    <>
      <Head title={read ? `${[read.run.definition, read.run.key].filter(Boolean).join(" ")}, from a file` : "Open an exported run"}>
        <label className={parts.button}>Choose a file<input type="file" accept=".json,application/json" className={parts.hidden} onChange={(event) => void open(event.target.files?.[0])} /></label>
      </Head>
      <Problem error={error} />
      {read ? <Read read={read} key={read.run.id} /> : (
        <div className={parts.drop} data-over={isOver}>
          <p>Drop a file here that <code>outlast export</code> or “Download with its journal” on a run's tab “Raw” made.</p>
          <p>It is looked at, and not kept.</p>
        </div>
      )}
    </>
  );
}

/// What nobody has to look for in the file.
function missing(run: Run): string {
  if (!isFinal(run.status)) return "What became of it since, its children and its log are not in the file.";
  return run.status === "failed" && !run.error ? "Why it failed, its children and its log are not in the file." : "Its children and its log are not in the file.";
}

function Read({ read: { run, steps, history } }: { read: Schemas["ReadRun"] }) {
  const now = useNow();
  const [shown, setShown] = useState<Shown>({});
  const [chosen, setChosen] = useState<string>();
  const [kind, setKind] = useState<string>();
  const [compress, setCompress] = useState(true);
  const step = stepOf(steps, chosen);
  return (
    <div className={parts.stack}>
      <Note><StateChip state={stateOf(run, now)} /><span className={parts.mono}>{run.id}</span><span>version {run.version}, queue {run.queue}. {missing(run)}</span></Note>
      <Ended run={{ ...run, failure: null }} />
      <label className={parts.check}><input type="checkbox" checked={compress} onChange={(event) => setCompress(event.target.checked)} /> Compress idle time</label>
      <Timeline run={run} steps={steps} compress={compress} shown={shown} onShow={(change) => setShown((before) => ({ ...before, ...change(before) }))} chosen={chosen} onChoose={setChosen} isAlone />
      {step && <StepPanel run={run} step={step} place={steps.indexOf(step)} onClose={() => setChosen(undefined)} isAlone />}
      <Payloads run={run} />
      <section><h2 className={css.heading}>History</h2><HistoryTable run={run.id} entries={history} kind={kind} onKind={setKind} /></section>
    </div>
  );
}
