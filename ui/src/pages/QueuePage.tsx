// One queue: how it stands, what may run at once, what is in it, and what people do about it.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { api, ApiError, data, type Once, type Schemas } from "../api/client";
import { useTopics } from "../app/live";
import { useMay } from "../app/Shell";
import { bulkWords } from "../lib/filter";
import { useReach } from "../lib/me";
import { hasRules, unlessDone } from "../lib/meanwhile";
import { held, waiting } from "../lib/queue";
import { many, stopped } from "../lib/stopped";
import { Ask, Field, ReasonField } from "../parts/Ask";
import { Asked, HeldBy } from "../parts/Asked";
import { Charts } from "../parts/Chart";
import { type Notice, Notices } from "../parts/Notices";
import { css, Head, Loading, Note, Problem, Time } from "../parts/parts";
import { Back, Facts, RunTable } from "../parts/RunTable";
import { WaitInLine } from "../parts/Spark";
import { previewOf } from "./BulkDialog";
import { RangeSwitch, useRange } from "./Overview";
import { QueueActs, QueueState, RateState, rules, serving } from "./Queues";

type Queue = Schemas["Queue"];

export function QueuePage() {
  const { name } = useParams({ strict: false }) as { name: string };
  useTopics("queues");
  const may = useMay("operate");
  const reach = useReach();
  const [asking, setAsking] = useState<"limits" | "purge" | null>(null);
  const found = useQuery({ queryKey: ["queues", name], queryFn: () => data(api.GET("/api/v1/queues/{name}", { params: { path: { name } } })), refetchInterval: 5000 });
  const nodes = useQuery({ queryKey: ["nodes"], queryFn: () => data(api.GET("/api/v1/nodes")), enabled: reach("nodes") === true, refetchInterval: 10_000, retry: false });
  const unserved = useQuery(stopped()).data?.unserved.get(name) ?? 0;
  const range = useRange();
  const series = useQuery({ queryKey: ["stats", "series", range, name, ""], queryFn: () => data(api.GET("/api/v1/stats/series", { params: { query: { range, queue: name } } })), refetchInterval: 5000 });
  const queue = found.data;
  if (!queue) {
    if (found.error instanceof ApiError && found.error.status === 404) return <Empty name={name} series={series} />;
    return found.error ? <Problem error={found.error} /> : <Loading />;
  }
  const close = () => setAsking(null);
  return (
    <>
      <Head title={<><Back to="/queues" name="Queues" search={{ range }} /> {queue.name} <QueueState queue={queue} /></>} name={`${queue.name}, queue`}>
        <RangeSwitch to="/queues/$name" params={{ name }} />
        {may && <QueueActs queue={queue} />}
        {may && <button type="button" className={css.button} onClick={() => setAsking("limits")}>Limits…</button>}
        {may && <button type="button" className={`${css.button} ${css.danger}`} onClick={() => setAsking("purge")}>Purge…</button>}
      </Head>
      <Held queue={queue} />
      <Notices items={nodes.data ? missing(queue, nodes.data.items, unserved) : []} className={css.held} />
      <Facts facts={[
        ["Due", queue.due.toLocaleString("en")], ["Oldest due", <Time key="o" at={queue.oldest_due_at} />], ["Later", queue.scheduled.toLocaleString("en")],
        ["Running", `${queue.running.toLocaleString("en")}${queue.rules.limit ? ` of ${queue.rules.limit}` : ""}`], ["Waiting", waiting(queue).toLocaleString("en")], ["Rules", rules(queue)], ["Of the rate", queue.rate_state && <RateState key="r" queue={queue} />], ["Nodes", nodes.data && serving(queue.name, nodes.data.items).toLocaleString("en")], ["Wait in line", <WaitInLine key="w" queue={queue.name} range={range} none="–" />],
      ]} />
      <Charts found={series} hasLine />
      <Groups queue={queue.name} />
      <RunTable title="Unfinished runs" search={{ queue: queue.name, status: ["ready", "running", "waiting", "paused", "blocked", "undoing", "undo_failed"] }} />
      <RunTable title="Last failures" search={{ queue: queue.name, status: "failed" }} />
      <Asked of="queues" name={queue.name} />
      {asking === "limits" && <LimitsDialog queue={queue} onClose={close} />}
      {asking === "purge" && <PurgeDialog queue={queue} onClose={close} />}
    </>
  );
}

const ACTS = ["queue.pause", "queue.drain", "queue.resume"];

/// Who paused or drained it and why, and what becomes of what comes.
function Held({ queue }: { queue: Queue }) {
  if (queue.state === "open") return null;
  const [word, act] = queue.state === "paused" ? ["Paused", "queue.pause"] : ["Drained", "queue.drain"];
  return <div className={css.held}><HeldBy of="queues" name={queue.name} word={word} act={act} others={ACTS.filter((one) => one !== act)} since={queue.since} means={held(queue)} /></div>;
}

/// That nobody takes from it, where that is so.
function missing(queue: Queue, nodes: Schemas["Node"][], unserved: number): Notice[] {
  const served = serving(queue.name, nodes);
  if (queue.state !== "open" || (!unserved && served)) return [];
  const waits = unserved ? `${many(unserved)} ${unserved === 1 ? "is" : "are"} blocked for want of one` : queue.due ? `${queue.due.toLocaleString("en")} due ${queue.due === 1 ? "run waits" : "runs wait"} for one` : "what is due in it waits for one";
  const note = <Note tone={queue.due || unserved ? "red" : "amber"}><span>No node {served ? "that knows their code " : ""}serves this queue: {waits}. Start a program that takes from <code>{queue.name}</code>; <Link to={"/nodes" as string}>nodes</Link> shows what is up.</span></Note>;
  return [{ key: "unserved", note }];
}

/// One that has no rules, no unfinished runs, and no definition that goes there: what was in it is known for a while.
function Empty({ name, series }: { name: string; series: Parameters<typeof Charts>[0]["found"] }) {
  const range = useRange();
  return (
    <>
      <Head title={<><Back to="/queues" name="Queues" search={{ range }} /> {name}</>}><RangeSwitch to="/queues/$name" params={{ name }} /></Head>
      <Note><span>Nothing is in it now: the queue has no unfinished runs and no rules, and no definition goes there.</span></Note>
      <Charts found={series} hasLine />
      <RunTable title="Last runs" search={{ queue: name }} />
      <RunTable title="Last failures" search={{ queue: name, status: "failed" }} />
    </>
  );
}

/// The keys of which most runs, and how much of what each may that is. A queue without keys has none.
function Groups({ queue }: { queue: string }) {
  const groups = useQuery({ queryKey: ["queues", queue, "groups"], queryFn: () => data(api.GET("/api/v1/queues/{name}/groups", { params: { path: { name: queue } } })), refetchInterval: 5000, placeholderData: undefined });
  const limit = groups.data?.limit;
  if (!groups.data || (!groups.data.items.length && !limit)) return null;
  const most = limit ?? Math.max(...groups.data.items.map((group) => group.running));
  return (
    <section className={`${css.card} ${css.scroll} ${css.section}`} aria-label="Groups">
      <h2>Busiest groups</h2>
      {groups.data.items.length ? (
        <table className={css.table}>
          <thead><tr><th>Group</th><th className={css.num}>Running{limit ? ", of what may" : ""}</th><th className={css.num}>In line</th></tr></thead>
          <tbody>
            {groups.data.items.map((group) => (
              <tr key={group.name}>
                <td>{group.name}</td>
                <td className={css.num}>
                  <span className={css.used}>
                    <span className={css.bar} aria-hidden="true"><span style={{ width: `${Math.min(100, (100 * group.running) / most)}%` }} /></span>
                    {group.running.toLocaleString("en")}{limit && <span className={css.muted}> / {limit.toLocaleString("en")}</span>}
                  </span>
                </td>
                <td className={css.num}>{group.in_line.toLocaleString("en")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : <div className={css.empty}>No run of a group is in hand.</div>}
    </section>
  );
}

const LIMITS = [["limit", "At once, on all nodes together"], ["per_node", "At once on one node"], ["per_group", "At once of one group"]] as const;

function LimitsDialog({ queue: latest, onClose }: { queue: Queue; onClose: () => void }) {
  const client = useQueryClient();
  // As it was when somebody began to write: what others changed since then is not in the fields.
  const [queue] = useState(latest);
  const { rules } = queue;
  const [texts, setTexts] = useState<Record<string, string>>({
    limit: rules.limit?.toString() ?? "", per_node: rules.per_node?.toString() ?? "", per_group: rules.per_group?.toString() ?? "",
    count: rules.rate?.count.toString() ?? "", seconds: rules.rate ? String(rules.rate.per_ms / 1000) : "",
  });
  const [code, setCode] = useState(false);
  const [reason, setReason] = useState("");
  const number = (name: string) => (texts[name]?.trim() ? Number(texts[name]) : undefined);
  const field = (name: string, label: string, hint?: string) => (
    <Field key={name} label={label} hint={hint}>
      <input className={css.input} type="number" min={name === "seconds" ? 0.001 : 1} step={name === "seconds" ? "any" : 1} value={texts[name]} disabled={code} onChange={(event) => setTexts({ ...texts, [name]: event.target.value })} />
    </Field>
  );
  const act = async () => {
    const params = { path: { name: queue.name } };
    // Whoever changed it meanwhile is not overruled.
    const headers = { "if-match": `"${queue.changes}"` };
    const look = async () => (await data(api.GET("/api/v1/queues/{name}", { params }))) as Queue;
    if (code) await unlessDone(() => api.DELETE("/api/v1/queues/{name}/limits", { params: { ...params, query: { reason: reason || undefined } }, headers }), look, (now) => !now.own_rules);
    else {
      const [count, seconds] = [number("count"), number("seconds")];
      if ((count === undefined) !== (seconds === undefined)) throw new Error("A rate is so many in so many seconds: say both, or neither.");
      const asked = { ...Object.fromEntries(LIMITS.map(([name]) => [name, number(name)])), rate: count && seconds ? { count, per_ms: Math.round(seconds * 1000) } : undefined, rate_per_group: rules.rate_per_group ?? undefined, fair: rules.fair, ordered: rules.ordered };
      await unlessDone(() => api.PUT("/api/v1/queues/{name}/limits", { params, headers, body: { ...asked, reason: reason || undefined } as never }), look, (now) => hasRules(now, asked));
    }
    await client.invalidateQueries({ queryKey: ["queues"] });
  };
  return (
    <Ask title={`Limits of ${queue.name}`} action={code ? "Use what code says" : "Set limits"} onDo={act} onClose={onClose}>
      <p className={css.muted}>They count from now on, whatever code says. What is left empty is not limited.</p>
      {LIMITS.map(([name, label]) => field(name, label))}
      {field("count", "Rate", "so many begin")}
      {field("seconds", "In so many seconds")}
      {queue.own_rules && <label className={css.check}><input type="checkbox" checked={code} onChange={(event) => setCode(event.target.checked)} /> back to what code says</label>}
      <ReasonField value={reason} onChange={setReason} />
    </Ask>
  );
}

/// Cancels everything in line. The name has to be typed: this is rarely meant.
function PurgeDialog({ queue, onClose }: { queue: Queue; onClose: () => void }) {
  const navigate = useNavigate();
  const [typed, setTyped] = useState("");
  const [reason, setReason] = useState("");
  const ask = { op: "cancel", filter: bulkWords([{ field: "queue", value: queue.name }, { field: "status", value: "ready" }])!, all: false };
  const preview = useQuery(previewOf(ask));
  const act = async (once: Once) => {
    const made = (await data(once.POST("/api/v1/bulk", { body: { ...ask, dry_run: false, reason } as never }))) as Schemas["Bulk"];
    void navigate({ to: `/bulk/${made.id}` as string });
  };
  const found = preview.data;
  const count = found ? found.acts.toLocaleString("en") + (found.is_all ? "" : "+") : "…";
  return (
    <Ask title={`Purge ${queue.name}?`} action={found ? `Cancel ${count} runs` : "…"} danger disabled={typed !== queue.name || !found?.acts} onDo={act} onClose={onClose}>
      <Problem error={preview.error} />
      <p><strong>{count}</strong> runs that are in line are cancelled, those that come later too. What runs and what waits goes on.</p>
      <Field label={`Type ${queue.name} to say that you mean it`}><input className={css.input} value={typed} autoComplete="off" onChange={(event) => setTyped(event.target.value)} /></Field>
      <ReasonField value={reason} onChange={setReason} required />
    </Ask>
  );
}
