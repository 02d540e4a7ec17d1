// Queues: how much is in line, what may run at once, and whether it is worked off.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Once, type Schemas } from "../api/client";
import { useTopics } from "../app/live";
import { useMay } from "../app/Shell";
import { useReach } from "../lib/me";
import { waiting } from "../lib/queue";
import { useShown } from "../lib/shown";
import { many, stopped } from "../lib/stopped";
import { duration } from "../lib/time";
import { Ask, ReasonField } from "../parts/Ask";
import { Notices } from "../parts/Notices";
import { css, Head, Loading, Note, Problem, Time, WhenSeen } from "../parts/parts";
import { Spark, WaitInLine } from "../parts/Spark";
import { RangeSwitch, useRange } from "./Overview";
import page from "./overview.module.css";

type Queue = Schemas["Queue"];
type Act = "pause" | "resume" | "drain";
const MEANS: Record<Act, string> = {
  pause: "Nothing of it begins until it is resumed. What runs goes on.",
  resume: "It is worked off again.",
  drain: "What is in it is worked off. What comes later stays in line until it is resumed.",
};

/// How many nodes take from a queue. One that names none may take from all.
export function serving(queue: string, nodes: Schemas["Node"][]): number {
  return nodes.filter((node) => !node.queues.length || node.queues.includes(queue)).length;
}

export function QueuesPage() {
  useTopics("queues");
  const may = useMay("operate");
  const range = useRange();
  const reach = useReach();
  const queues = useShown(useQuery({ queryKey: ["queues"], queryFn: () => data(api.GET("/api/v1/queues")) }));
  const nodes = useQuery({ queryKey: ["nodes"], queryFn: () => data(api.GET("/api/v1/nodes")), enabled: reach("nodes") === true, refetchInterval: 10_000, retry: false });
  const unserved = useQuery(stopped()).data?.unserved ?? new Map<string, number>();
  return (
    <>
      <Head title="Queues"><RangeSwitch to="/queues" /></Head>
      <Problem error={queues.error} />
      <Notices items={[...unserved].map(([queue, count]) => ({ key: queue, note: <Note tone="red"><span><Unserved queue={queue} count={count} /></span></Note> }))} label="Warnings" className={page.warnings} />
      {queues.isPending ? <Loading /> : queues.data && (
        <div className={`${css.card} ${css.scroll}`}>
          <table className={css.table}>
            <thead>
              <tr><th>Name</th><th>State</th><th className={css.num}>Due</th><th className={css.num}>Later</th><th className={css.num}>Running</th><th className={css.num}>Waiting</th><th>Oldest due</th><th>Ended in {range}</th><th className={css.num}>Nodes</th><th>Rules</th>{may && <th className={css.num}>Actions</th>}</tr>
            </thead>
            <tbody>
              {queues.data.items.map((queue) => (
                <tr key={queue.name}>
                  <td><Link to={"/queues/$name" as string} params={{ name: queue.name } as never} search={{ range } as never}>{queue.name}</Link></td>
                  <td><QueueState queue={queue} /></td>
                  <td className={css.num}>{queue.due.toLocaleString("en")}</td>
                  <td className={css.num}>{queue.scheduled.toLocaleString("en")}</td>
                  <td className={css.num}><Used queue={queue} /></td>
                  <td className={css.num}>{waiting(queue).toLocaleString("en")}</td>
                  <td><Time at={queue.oldest_due_at} /><WhenSeen><WaitInLine queue={queue.name} range={range} /></WhenSeen></td>
                  <td><WhenSeen><Spark of={{ queue: queue.name }} range={range} /></WhenSeen></td>
                  <td className={css.num}>{nodes.data && <Nodes count={serving(queue.name, nodes.data.items)} isMissed={queue.due > 0 || unserved.has(queue.name)} />}</td>
                  <td className={`${css.muted} ${css.whole}`}>{rules(queue)}<RateState queue={queue} /></td>
                  {may && <td><div className={css.actions}><QueueActs queue={queue} small /></div></td>}
                </tr>
              ))}
            </tbody>
          </table>
          {!queues.data.items.length && <div className={css.empty}>No queue has rules or unfinished runs.</div>}
        </div>
      )}
    </>
  );
}

/// A queue whose runs are blocked for want of a node.
export function Unserved({ queue, count }: { queue: string; count: number }) {
  return <>No node serves queue <Link to={"/queues/$name" as string} params={{ name: queue } as never}>{queue}</Link>: <Link to={"/runs" as string} search={{ queue, status: "blocked" } as never}>{many(count)}</Link> of it {count === 1 ? "is" : "are"} blocked until one does.</>;
}

/// How many nodes take from it; none stands out where somebody waits for one.
function Nodes({ count, isMissed }: { count: number; isMissed: boolean }) {
  return !count && isMissed ? <span className={`${css.chip} ${css.red}`}><i aria-hidden="true">!</i>none</span> : <>{count.toLocaleString("en")}</>;
}

/// How many run, and how much of what may that is.
export function Used({ queue }: { queue: Queue }) {
  const { limit } = queue.rules;
  if (!limit) return <>{queue.running.toLocaleString("en")}</>;
  return (
    <span className={css.used}>
      <span className={css.bar} aria-hidden="true"><span style={{ width: `${Math.min(100, (100 * queue.running) / limit)}%` }} /></span>
      {queue.running.toLocaleString("en")}<span className={css.muted}> / {limit}</span>
    </span>
  );
}

/// What is left of the rate, and when there is more again.
export function RateState({ queue }: { queue: Queue }) {
  const { rate_state: state } = queue;
  if (!state) return null;
  const all = (state.used + state.free).toLocaleString("en");
  return (
    <div className={state.free ? css.muted : css.warn}>
      {state.free ? `${state.used.toLocaleString("en")} of ${all} begun` : <>rate used up, more <Time at={state.freer_at} /></>}
    </div>
  );
}

/// Pause, resume and drain, each with what it means.
export function QueueActs({ queue, small = false }: { queue: Queue; small?: boolean }) {
  const [asked, setAsked] = useState<Act | null>(null);
  const [reason, setReason] = useState("");
  const client = useQueryClient();
  const act = async (what: Act, once: Once) => {
    await data(once.POST(`/api/v1/queues/{name}/${what}` as "/api/v1/queues/{name}/pause", { params: { path: { name: queue.name } }, body: { reason: reason || undefined } }));
    await client.invalidateQueries({ queryKey: ["queues"] });
  };
  const word = (what: Act) => what[0]!.toUpperCase() + what.slice(1);
  return (
    <>
      {(queue.state === "open" ? (["pause", "drain"] as Act[]) : (["resume"] as Act[])).map((what) => (
        <button key={what} type="button" className={`${css.button} ${small ? css.small : ""}`} aria-label={`${what} ${queue.name}`} onClick={() => setAsked(what)}>{word(what)}</button>
      ))}
      {asked && <Ask title={`${word(asked)} queue ${queue.name}?`} action={word(asked)} onClose={() => (setAsked(null), setReason(""))} onDo={(once) => act(asked, once)}><p>{MEANS[asked]}</p><ReasonField value={reason} onChange={setReason} /></Ask>}
    </>
  );
}

export function QueueState({ queue }: { queue: Queue }) {
  const looks: Record<string, [string, string]> = { open: ["green", "✓"], paused: ["amber", "❚❚"], draining: ["violet", "⤓"] };
  const [tone, icon] = looks[queue.state] ?? ["grey", "?"];
  return (
    <span className={css.nowrap}>
      <span className={`${css.chip} ${css[tone]}`} data-state={queue.state}><i aria-hidden="true">{icon}</i>{queue.state}</span>{" "}
      {queue.since && queue.state !== "open" && <span className={css.muted}><Time at={queue.since} /></span>}
    </span>
  );
}

export function rules({ rules, own_rules }: Queue): string {
  const rate = (rate: { count: number; per_ms: number } | null | undefined, of: string) => rate && `${rate.count} in ${duration(rate.per_ms)}${of}`;
  const words = [
    rules.limit && `${rules.limit} at once`,
    rules.per_node && `${rules.per_node} per node`,
    rules.per_group && `${rules.per_group} per group`,
    rate(rules.rate, ""),
    rate(rules.rate_per_group, " per group"),
    rules.ordered && "in order",
    rules.fair && "fair",
    own_rules && "(set by people)",
  ];
  return words.filter(Boolean).join(", ") || "none";
}
