// What can be done to a run, by its state: one thing first, the others in a menu. Each asks before it acts.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { useKeys } from "../app/keys";
import { useMay } from "../app/Shell";
import { parse, write } from "../lib/json";
import { isFinal, type Run, type Step } from "../lib/state";
import { Ask, Field, ReasonField } from "../parts/Ask";
import { Menu } from "../parts/Menu";
import { css as parts, Problem } from "../parts/parts";
import type { Explained } from "./Explain";

export type Action = "cancel" | "kill" | "pause" | "resume" | "retry" | "event" | "settle" | "fork" | "rerun" | "delete";
const WORDS: Record<Action, string> = {
  cancel: "Cancel", kill: "Kill", pause: "Pause", resume: "Resume", retry: "Retry", event: "Send event", settle: "Settle promise", fork: "Fork from a step", rerun: "Rerun", delete: "Delete",
};
const MEANS: Partial<Record<Action, string>> = {
  cancel: "It is asked to stop, and reverts what it did where its code says how.",
  kill: "It ends at once, as cancelled. Nothing of what it did is reverted.",
  pause: "It is held back, as soon as what it is doing is done. What comes for it meanwhile is kept.",
  resume: "It goes on as if nothing had been.",
  delete: "The run, its steps, results and logs are gone for good. Nothing that it did is reverted.",
};

/// What makes sense now, the likeliest first.
export function actionsOf(status: string, waits: string[]): Action[] {
  switch (status) {
    case "ready":
      return ["cancel", "pause", "kill"];
    case "running":
      return ["cancel", "pause", "event", "settle", "kill"];
    case "waiting": {
      const first: Action[] = waits.includes("event") ? ["event"] : waits.includes("promise") ? ["settle"] : [];
      const others: Action[] = ["cancel", "pause", "event", "settle", "fork", "kill"];
      return [...first, ...others.filter((one) => !first.includes(one))];
    }
    case "paused":
      return ["resume", "cancel", "event", "settle", "fork", "kill"];
    case "blocked":
      return ["fork", "retry", "cancel", "kill"];
    case "undoing":
      return ["pause", "kill"];
    case "undo_failed":
      return ["retry", "kill"];
    case "failed":
      return ["retry", "fork", "rerun", "delete"];
    case "cancelled":
      return ["rerun", "retry", "fork", "delete"];
    default:
      return ["rerun", "fork", "delete"];
  }
}

interface Props {
  run: Run;
  explained?: Explained;
  steps: Step[];
}

export function Actions({ run, explained, steps }: Props) {
  const may = useMay("operate");
  const menu = useRef<HTMLDetailsElement>(null);
  const [asked, setAsked] = useState<Action | null>(null);
  const waits = (isFinal(run.status) ? [] : (explained?.waits ?? []));
  const actions = actionsOf(run.status, waits.map((wait) => wait.on));
  const [first, ...others] = actions;
  const ask = (action: Action) => {
    if (menu.current) menu.current.open = false;
    setAsked(action);
  };
  useKeys((key) => {
    const wanted = key === "r" ? (["retry", "rerun"] as Action[]).find((one) => actions.includes(one)) : key === "c" && actions.includes("cancel") ? "cancel" : undefined;
    if (!wanted || !may) return false;
    ask(wanted);
    return true;
  });
  if (!may) return null;
  const close = () => setAsked(null);
  const name = waits.find((wait) => wait.on === (asked === "settle" ? "promise" : "event"))?.name ?? "";
  return (
    <>
      <button type="button" className={`${parts.button} ${parts.primary}`} onClick={() => ask(first!)}>{WORDS[first!]}…</button>
      <Menu label="More" name="More actions" menu={menu}>
        {others.map((one) => <button key={one} type="button" onClick={() => ask(one)}>{WORDS[one]}…</button>)}
      </Menu>
      {asked === "fork" || asked === "rerun" ? <ForkDialog run={run} steps={steps} from={asked === "rerun" ? START : undefined} onClose={close} />
        : asked === "retry" ? <RetryDialog run={run} onClose={close} />
        : asked === "event" || asked === "settle" ? <MessageDialog run={run} kind={asked} name={name} onClose={close} />
        : asked ? <ReasonDialog run={run} action={asked} onClose={close} /> : null}
    </>
  );
}

function useRefresh(id: string) {
  const client = useQueryClient();
  return () => Promise.all([client.invalidateQueries({ queryKey: ["run", id] }), client.invalidateQueries({ queryKey: ["runs"] })]);
}

function ReasonDialog({ run, action, onClose }: { run: Run; action: Action; onClose: () => void }) {
  const refresh = useRefresh(run.id);
  const navigate = useNavigate();
  const [reason, setReason] = useState("");
  const act = async () => {
    const path = { id: run.id };
    if (action === "delete") {
      await data(api.DELETE("/api/v1/runs/{id}", { params: { path, query: { reason: reason || undefined } } }));
      await navigate({ to: "/runs" as string });
      return;
    }
    await data(api.POST(`/api/v1/runs/{id}/${action}` as "/api/v1/runs/{id}/cancel", { params: { path }, body: { reason: reason || undefined } as never }));
    await refresh();
  };
  return (
    <Ask title={`${WORDS[action]} ${run.definition} ${run.key ?? `…${run.id.slice(-8)}`}?`} action={WORDS[action]} danger={["cancel", "kill", "delete"].includes(action)} onDo={act} onClose={onClose}>
      <p>{MEANS[action]}</p>
      <ReasonField value={reason} onChange={setReason} required={action === "kill" || action === "delete"} />
    </Ask>
  );
}

function MessageDialog({ run, kind, name: suggested, onClose }: { run: Run; kind: "event" | "settle"; name: string; onClose: () => void }) {
  const refresh = useRefresh(run.id);
  const [name, setName] = useState(suggested);
  const [text, setText] = useState("null");
  const send = async () => {
    const body = { name, data: parse(text) } as never;
    const params = { path: { id: run.id } };
    await data(kind === "event" ? api.POST("/api/v1/runs/{id}/events", { params, body }) : api.POST("/api/v1/runs/{id}/promises", { params, body }));
    await refresh();
  };
  return (
    <Ask title={kind === "event" ? "Send an event" : "Settle a promise"} action={kind === "event" ? "Send" : "Settle"} onDo={send} onClose={onClose} disabled={!name}>
      <p className={parts.muted}>{kind === "event" ? "It is kept until the run waits for it." : "The first value stays."}</p>
      <Field label="Name"><input className={parts.input} value={name} required onChange={(event) => setName(event.target.value)} /></Field>
      <Field label="Data" hint="JSON"><textarea className={parts.input} value={text} spellCheck={false} onChange={(event) => setText(event.target.value)} /></Field>
    </Ask>
  );
}

function Plan({ plan }: { plan: Schemas["PlanJson"] }) {
  return (
    <div>
      <p><strong>{plan.kept}</strong> recorded {plan.kept === 1 ? "result stays" : "results stay"}; {plan.again.length ? "these run again, with their side effects:" : "nothing that ran before runs again."}</p>
      {plan.again.length > 0 && <ul>{plan.again.slice(0, 12).map((name) => <li key={name}><code>{name}</code></li>)}{plan.again.length > 12 && <li>… and {plan.again.length - 12} more</li>}</ul>}
      {plan.messages + plan.children > 0 && <p>{plan.messages} messages arrive again, {plan.children} children are waited for again.</p>}
    </div>
  );
}

function RetryDialog({ run, onClose }: { run: Run; onClose: () => void }) {
  const refresh = useRefresh(run.id);
  const [reason, setReason] = useState("");
  const params = { path: { id: run.id } };
  const plan = useQuery({
    queryKey: ["run", run.id, "retry-plan"],
    queryFn: async () => (await data(api.POST("/api/v1/runs/{id}/retry", { params, body: { dry_run: true } as never }))) as unknown as Schemas["PlanJson"],
    retry: false, placeholderData: undefined,
  });
  const act = async () => {
    await data(api.POST("/api/v1/runs/{id}/retry", { params, body: { reason: reason || undefined } as never }));
    await refresh();
  };
  return (
    <Ask title="Retry from where it went wrong?" action="Retry" onDo={act} onClose={onClose} disabled={!plan.data}>
      <Problem error={plan.error} />
      {plan.data && <Plan plan={plan.data} />}
      <ReasonField value={reason} onChange={setReason} />
    </Ask>
  );
}

/// Instead of a step.
const START = "\0start";

export function ForkDialog({ run, steps, from: given, onClose }: { run: Run; steps: Step[]; from?: string; onClose: () => void }) {
  const navigate = useNavigate();
  const refresh = useRefresh(run.id);
  const [from, setFrom] = useState(given ?? (run.status === "completed" ? START : ""));
  const [latest, setLatest] = useState(false);
  const [text, setText] = useState(write(run.input ?? null, 2));
  const [reason, setReason] = useState("");
  const before = write(run.input ?? null, 2);
  const atStart = from === START;
  const ask = (dryRun: boolean) => ({
    from: from && !atStart ? from : undefined, from_start: atStart, latest, dry_run: dryRun,
    input: atStart && text !== before ? parse(text) : undefined, reason: reason || undefined,
  });
  const plan = useQuery({
    queryKey: ["run", run.id, "fork-plan", from, latest],
    queryFn: async () => (await data(api.POST("/api/v1/runs/{id}/fork", { params: { path: { id: run.id } }, body: { ...ask(true), reason: undefined, input: undefined } as never }))) as Schemas["PlanJson"],
    retry: false, placeholderData: undefined,
  });
  const act = async () => {
    const made = (await data(api.POST("/api/v1/runs/{id}/fork", { params: { path: { id: run.id } }, body: ask(false) as never }))) as Schemas["Forked"];
    await refresh();
    void navigate({ to: `/runs/${made.id}` as string });
  };
  return (
    <Ask title={given === START ? "Rerun: another run from the beginning" : "Fork: another run that goes on from here"} action={given === START ? "Rerun" : "Fork"} onDo={act} onClose={onClose} disabled={!plan.data}>
      <Field label="From">
        <select className={parts.input} value={from} onChange={(event) => setFrom(event.target.value)}>
          <option value={START}>the beginning</option>
          <option value="">where it went wrong</option>
          {steps.slice(0, 500).map((step) => <option key={step.op + step.name} value={step.name}>{step.op} {step.name}</option>)}
        </select>
      </Field>
      {atStart && <Field label="Input" hint="JSON"><textarea className={parts.input} value={text} spellCheck={false} onChange={(event) => setText(event.target.value)} /></Field>}
      <label className={parts.check}><input type="checkbox" checked={latest} onChange={(event) => setLatest(event.target.checked)} /> with the version that new runs take</label>
      <Problem error={plan.error} />
      {plan.data && <Plan plan={plan.data} />}
      <ReasonField value={reason} onChange={setReason} />
    </Ask>
  );
}
