// What is done to a run: one thing first, the others in a menu. Each asks before it acts.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { api, data, looks, type Once, type Schemas } from "../api/client";
import { useKeys } from "../app/keys";
import { useOffers } from "../app/offers";
import { useMay } from "../app/Shell";
import { isJson } from "../lib/form";
import { hasHidden, parse } from "../lib/json";
import { useInput } from "../lib/payload";
import { isFinal, recordedName, type Run, type Step, stepKey } from "../lib/state";
import { fieldTime, millis, serverNow, timeField } from "../lib/time";
import { useUtc } from "../lib/zone";
import { Ask, Field, ReasonField } from "../parts/Ask";
import { JsonText } from "../parts/FormField";
import { Menu } from "../parts/Menu";
import { css as parts, Hidden, Problem, Time } from "../parts/parts";
import { type Action, actionsOf, type Choice, choicesOf, type Due, dueOf, forkBody, type ForkVersion, meaning, MEANS, type Outlook, outlook, START, startsOf, usualFrom, versionsOf, WORDS, wordOf, WRONG } from "./acts";
import { ExplainDialog } from "./Explain";
import { MessageDialog } from "./Message";
import { useRefresh } from "./refresh";
import type { Explained } from "./remedy";

interface Props {
  run: Run;
  /// Known before anything is offered, if it can be: what a run waits for decides what comes first, and a button must not become another
  /// one while somebody presses it.
  explained?: Explained;
  /// Not known before they have come.
  steps?: Step[];
}

export function Actions({ run, explained, steps }: Props) {
  const may = useMay("operate");
  const [asked, setAsked] = useState<Action | null>(null);
  const waits = (isFinal(run.status) ? [] : (explained?.waits ?? []));
  const actions = actionsOf(run.status, waits.map((wait) => wait.on), { due: dueOf(explained), isAsked: run.cancel_reason != null || explained?.asked_to_stop != null, isUnserved: explained?.unserved != null, isNew: run.attempt <= 1 && steps?.length === 0 });
  const [first, ...others] = actions;
  useKeys((key) => {
    const wanted = key === "r" ? (["retry", "again", "rerun"] as Action[]).find((one) => actions.includes(one)) : key === "c" && actions.includes("cancel") ? "cancel" : undefined;
    if (!wanted || !may) return false;
    setAsked(wanted);
    return true;
  });
  // Also from the palette.
  useOffers(may ? actions.map((one) => ({ label: wordOf(one, run.status), act: () => setAsked(one) })) : []);
  if (!may) return null;
  const close = () => setAsked(null);
  const names = waits.filter((wait) => wait.on === (asked === "settle" ? "promise" : "event")).flatMap((wait) => wait.name ?? []);
  return (
    <>
      <button type="button" className={`${parts.button} ${parts.primary}`} onClick={() => setAsked(first!)}>{wordOf(first!, run.status)}{first === "explain" ? "" : "…"}</button>
      <Menu label="More" name="More actions">
        {others.map((one) => <button key={one} type="button" onClick={() => setAsked(one)}>{wordOf(one, run.status)}…</button>)}
      </Menu>
      {asked === "fork" || asked === "rerun" || asked === "upgrade" ? <ForkDialog run={run} steps={steps} from={asked === "rerun" ? START : undefined} version={asked === "upgrade" ? "latest" : "same"} onClose={close} />
        : asked === "explain" ? <ExplainDialog explained={explained} run={run} onClose={close} />
        : asked === "skip" ? <SkipDialog run={run} steps={steps} onClose={close} />
        : asked === "now" || asked === "again" || asked === "timer" || asked === "time" ? <DueDialog run={run} action={asked} at={explained?.at ?? explained?.until} onClose={close} />
        : asked === "retry" ? <RetryDialog run={run} onClose={close} />
        : asked === "event" || asked === "settle" ? <MessageDialog run={run} steps={steps} kind={asked} names={names} onClose={close} />
        : asked ? <ReasonDialog run={run} steps={steps} action={asked} onClose={close} /> : null}
    </>
  );
}

function ReasonDialog({ run, steps, action, onClose }: { run: Run; steps?: Step[]; action: Action; onClose: () => void }) {
  const refresh = useRefresh(run.id);
  const navigate = useNavigate();
  const [reason, setReason] = useState("");
  const act = async (once: Once) => {
    const path = { id: run.id };
    if (action === "delete") {
      await data(api.DELETE("/api/v1/runs/{id}", { params: { path, query: { reason: reason || undefined } } }));
      await navigate({ to: "/runs" as string });
      return;
    }
    await data(once.POST(`/api/v1/runs/{id}/${action}` as "/api/v1/runs/{id}/cancel", { params: { path }, body: { reason: reason || undefined } as never }));
    await refresh();
  };
  return (
    <Ask title={`${WORDS[action]} ${run.definition} ${run.key ?? `…${run.id.slice(-8)}`}?`} action={WORDS[action]} danger={["cancel", "kill", "delete"].includes(action)} onDo={act} onClose={onClose}>
      <p>{meaning(action, run.status)}</p>
      {steps && outlook(action, run.status, steps).map((one) => <Becomes key={one.says} {...one} />)}
      <ReasonField value={reason} onChange={setReason} required={action === "kill" || action === "delete"} />
    </Ask>
  );
}

/// So many are named; the others are counted.
const FEW = 8;

/// What would become of something that it has done, does or waits for.
function Becomes({ says, names = [], runs = [] }: Outlook) {
  const more = names.length + runs.length - FEW;
  return (
    <p className={names.length || runs.length ? undefined : parts.muted}>
      {says} {names.slice(0, FEW).map((name, at) => <span key={name}>{at > 0 && ", "}<code>{name}</code></span>)}
      {runs.slice(0, FEW).map((id) => <Link key={id} to={`/runs/${id}` as string} className={parts.mono}>…{id.slice(-8)} </Link>)} {more > 0 && `… and ${more} more`}
    </p>
  );
}

/// It goes on sooner, or at another time.
function DueDialog({ run, action, at, onClose }: { run: Run; action: Due; at: string | undefined; onClose: () => void }) {
  const refresh = useRefresh(run.id);
  const utc = useUtc();
  const [time, setTime] = useState(timeField(millis(at) ?? serverNow(), utc));
  const [reason, setReason] = useState("");
  const act = async (once: Once) => {
    const body = { at: action === "time" ? new Date(fieldTime(time, utc)!).toISOString() : undefined, seen: at, reason: reason || undefined };
    const { changed } = await data(once.POST("/api/v1/runs/{id}/due", { params: { path: { id: run.id } }, body }));
    await refresh();
    if (!changed) throw new Error("Nothing was changed: it goes on by now, or waits for something else.");
  };
  return (
    <Ask title={`${WORDS[action]}: ${run.definition} ${run.key ?? `…${run.id.slice(-8)}`}?`} action={WORDS[action]} onDo={act} onClose={onClose} disabled={action === "time" && fieldTime(time, utc) === null}>
      {at && <p>By itself it goes on <strong><Time at={at} /></strong>.</p>}
      <p>{MEANS[action]}</p>
      {action === "time" && <Field label="Time" hint={utc ? "(UTC)" : "(your zone)"}><input type="datetime-local" step="1" required className={parts.input} value={time} onChange={(event) => setTime(event.target.value)} /></Field>}
      <ReasonField value={reason} onChange={setReason} />
    </Ask>
  );
}

function Plan({ plan }: { plan: Schemas["PlanJson"] }) {
  return (
    <div>
      <p><strong>{plan.kept}</strong> recorded {plan.kept === 1 ? "result stays" : "results stay"}; {plan.again.length ? "these run again, with their side effects:" : "nothing that ran before runs again."}</p>
      {plan.again.length > 0 && <ul>{plan.again.slice(0, 12).map((name) => <li key={name}><code>{name}</code></li>)}{plan.again.length > 12 && <li>… and {plan.again.length - 12} more</li>}</ul>}
      {plan.messages > 0 && <p>{plan.messages === 1 ? "1 message arrives" : `${plan.messages} messages arrive`} again.</p>}
      {plan.children > 0 && <p>{plan.children === 1 ? "1 child is" : `${plan.children} children are`} waited for again.</p>}
    </div>
  );
}

function RetryDialog({ run, onClose }: { run: Run; onClose: () => void }) {
  const refresh = useRefresh(run.id);
  const [reason, setReason] = useState("");
  const params = { path: { id: run.id } };
  const plan = useQuery({
    queryKey: ["run", run.id, "retry-plan"],
    queryFn: async () => (await data(looks.POST("/api/v1/runs/{id}/retry", { params, body: { dry_run: true } as never }))) as unknown as Schemas["PlanJson"],
    retry: false, placeholderData: undefined,
  });
  const act = async (once: Once) => {
    await data(once.POST("/api/v1/runs/{id}/retry", { params, body: { reason: reason || undefined } as never }));
    await refresh();
  };
  return (
    <Ask title={run.status === "undo_failed" ? "Try to undo it again?" : "Retry from where it went wrong?"} action={wordOf("retry", run.status)} onDo={act} onClose={onClose} disabled={!plan.data}>
      <Problem error={plan.error} />
      {plan.data && (run.status === "undo_failed" ? <p>What is undone stays so; the undo that failed runs again, and those that were to follow.</p> : <Plan plan={plan.data} />)}
      <ReasonField value={reason} onChange={setReason} />
    </Ask>
  );
}

/// An undo that gave up is taken for done: somebody has reverted it by hand, or lives with it.
function SkipDialog({ run, steps = [], onClose }: { run: Run; steps?: Step[]; onClose: () => void }) {
  const refresh = useRefresh(run.id);
  const undos = steps.filter((step) => step.op === "undo" && step.state !== "completed");
  const [named, setChosen] = useState<string>();
  const chosen = named ?? undos.at(-1)?.name ?? "";
  const [reason, setReason] = useState("");
  const act = async (once: Once) => {
    await data(once.POST("/api/v1/runs/{id}/replace", { params: { path: { id: run.id } }, body: { step: `undo:${chosen}`, result: null, reason } as never }));
    await refresh();
  };
  return (
    <Ask title="Skip this undo?" action="Skip" danger onDo={act} onClose={onClose} disabled={!chosen}>
      <p>It counts as done, and the run goes on with what is left to undo. Nothing reverts what it should have reverted: see to that by hand.</p>
      <Field label="Undo of"><select className={parts.input} value={chosen} onChange={(event) => setChosen(event.target.value)}>{undos.map((step) => <option key={step.name}>{step.name}</option>)}</select></Field>
      <ReasonField value={reason} onChange={setReason} required />
    </Ask>
  );
}

/// With which version of the code: nodes say which there are.
function useVersions(run: Run, chosen: ForkVersion): Choice[] {
  const name = run.definition;
  const cards = useQuery({ queryKey: ["definitions", name], queryFn: () => data(api.GET("/api/v1/definitions/{name}", { params: { path: { name } } })), retry: false });
  const nodes = useQuery({ queryKey: ["nodes"], queryFn: () => data(api.GET("/api/v1/nodes")), retry: false });
  // Nobody is offered a version before it is known whether a node has it.
  const known = nodes.isPending ? [] : versionsOf(name, cards.data?.items ?? [], nodes.data?.items);
  return choicesOf(run.version, cards.data?.items.find((card) => card.active)?.version, known, chosen);
}

interface Forking {
  run: Run;
  steps?: Step[];
  from?: string;
  version?: ForkVersion;
  onClose: () => void;
}

export function ForkDialog({ run, steps, from: given, version: first = "same", onClose }: Forking) {
  const navigate = useNavigate();
  const refresh = useRefresh(run.id);
  // As soon as it is known what there is; what comes later changes nothing under somebody's hand.
  const usual = useRef(given);
  if (steps) usual.current ??= usualFrom(run, steps);
  const [chosen, setFrom] = useState<string>();
  const from = chosen ?? usual.current;
  const [chosenVersion, setVersion] = useState<ForkVersion>(first);
  const versions = useVersions(run, chosenVersion);
  // The latest is that of the run where no other is newer.
  const version = versions.some((one) => one.value === chosenVersion) ? chosenVersion : "same";
  const { text: before, error } = useInput(run);
  const [typed, setTyped] = useState<string | null>(null);
  const text = typed ?? before ?? "";
  const [reason, setReason] = useState("");
  const isChanged = typed !== null && typed !== before;
  const hides = isChanged && hasHidden(text);
  const plan = useQuery({
    queryKey: ["run", run.id, "fork-plan", from, version],
    queryFn: async () => (await data(looks.POST("/api/v1/runs/{id}/fork", { params: { path: { id: run.id } }, body: forkBody(from!, version, undefined, "", true) as never }))) as Schemas["PlanJson"],
    enabled: from !== undefined, retry: false, placeholderData: undefined,
  });
  const act = async (once: Once) => {
    const body = forkBody(from!, version, isChanged ? parse(text) : undefined, reason, false);
    const made = (await data(once.POST("/api/v1/runs/{id}/fork", { params: { path: { id: run.id } }, body: body as never }))) as Schemas["Forked"];
    await refresh();
    void navigate({ to: `/runs/${made.id}` as string });
  };
  return (
    <Ask title={given === START ? "Rerun: another run from the beginning" : "Fork: another run that goes on from here"} action={given === START ? "Rerun" : "Fork"} onDo={act} onClose={onClose} disabled={!plan.data || hides || (isChanged && !isJson(text))}>
      <Field label="From">
        <select className={parts.input} value={from ?? START} disabled={from === undefined} onChange={(event) => setFrom(event.target.value)}>
          <option value={START}>the beginning</option>
          {run.error && <option value={WRONG}>where it went wrong</option>}
          {startsOf(steps ?? [], from ?? START).map((step) => <option key={stepKey(step)} value={recordedName(step)}>{step.op} {step.name}</option>)}
        </select>
      </Field>
      <JsonText label="Input" text={text} disabled={before === undefined} onChange={setTyped} />
      {isChanged && from !== START && <p className={parts.muted}>What is recorded stays, and has to fit this input: where it does not, the fork is blocked, and says why.</p>}
      {hides && <Hidden />}
      <Field label="Version">
        <select className={parts.input} value={String(version)} onChange={(event) => setVersion(versions.find((one) => String(one.value) === event.target.value)!.value)}>
          {versions.map(({ value, says }) => <option key={value} value={String(value)}>{says}</option>)}
        </select>
      </Field>
      <Problem error={plan.error ?? error} />
      {plan.data && <Plan plan={plan.data} />}
      <ReasonField value={reason} onChange={setReason} />
    </Ask>
  );
}
