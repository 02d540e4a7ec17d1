// Nodes: the processes that run work, how long each one's lease still holds, and those that were lost in the last day.
import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { api, data, type Schemas } from "../api/client";
import { useShown } from "../lib/shown";
import { duration, millis } from "../lib/time";
import { Copy, css, Head, Loading, Problem, Time } from "../parts/parts";
import { Back, Facts, RunTable } from "../parts/RunTable";
import list from "./runs.module.css";

function useNodes() {
  return useQuery({ queryKey: ["nodes"], queryFn: () => data(api.GET("/api/v1/nodes")), refetchInterval: 5000 });
}

function useLost() {
  return useQuery({ queryKey: ["nodes", "lost"], queryFn: () => data(api.GET("/api/v1/nodes/lost")), refetchInterval: 5000 });
}

export function NodesPage() {
  const { state } = useSearch({ strict: false }) as { state?: string };
  const asked = useNodes();
  const [nodes, lost] = [useShown(asked), useShown(useLost())];
  const isLost = state === "lost";
  return (
    <>
      <Head title="Nodes" />
      <nav className={list.shortcuts} aria-label="Which nodes">
        <Link to={"/nodes" as string} data-on={!isLost}>Up{nodes.data ? ` (${nodes.data.items.length})` : ""}</Link>
        <Link to={"/nodes" as string} search={{ state: "lost" } as never} data-on={isLost}>Lost in 24 hours{lost.data ? ` (${lost.data.items.length})` : ""}</Link>
      </nav>
      <Problem error={nodes.error ?? lost.error} />
      {(isLost ? lost : nodes).isPending ? <Loading /> : (
        (isLost ? lost : nodes).data && <div className={`${css.card} ${css.scroll}`}>{isLost ? <Lost nodes={lost.data?.items ?? []} /> : <Up nodes={nodes.data?.items ?? []} at={asked.dataUpdatedAt} />}</div>
      )}
    </>
  );
}

/// The nodes that were up when the server said so: nobody is lost because no newer answer came.
function Up({ nodes, at }: { nodes: Schemas["Node"][]; at: number }) {
  if (!nodes.length) return <div className={css.empty}><h2>No node is up</h2><p>Nothing runs until one is: start your program, or <code>outlast dev</code>.</p></div>;
  return (
    <table className={css.table}>
      <thead><tr><th>Name</th><th>State</th><th>Host</th><th className={css.num}>Process</th><th>Up since</th><th>Lease until</th><th className={css.num}>Slots used</th><th>Version</th><th>Language</th><th>Knows</th><th>Queues</th><th>Id</th></tr></thead>
      <tbody>
        {nodes.map((node) => (
          <tr key={node.id}>
            <td className={css.nowrap}><Link to={"/nodes/$id" as string} params={{ id: node.id } as never}>{node.name}</Link></td>
            <td><NodeState up={(millis(node.lease_until) ?? 0) > at} /></td>
            <td>{node.host}</td>
            <td className={css.num}>{node.pid}</td>
            <td><Time at={node.joined_at} /></td>
            <td><Time at={node.lease_until} /></td>
            <td className={css.num}><Slots node={node} /></td>
            <td className={css.nowrap}>{about(node).version}</td>
            <td className={css.nowrap}>{about(node).language}</td>
            <td className={`${css.muted} ${css.short} ${css.brief}`} title={codes(node).join(", ")}>{codes(node).join(", ")}</td>
            <td className={`${css.muted} ${css.short} ${css.brief}`} title={queues(node)}>{queues(node)}</td>
            <td className={`${css.mono} ${css.nowrap}`}>…{node.id.slice(-8)} <Copy text={node.id} name="id" /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Lost({ nodes }: { nodes: Schemas["LostNode"][] }) {
  if (!nodes.length) return <div className={css.empty}><h2>No node was lost</h2><p>One that stops by itself says good-bye, and is not lost.</p></div>;
  return (
    <table className={css.table}>
      <thead><tr><th>Name</th><th>State</th><th>Host</th><th className={css.num}>Process</th><th>Was up</th><th>Lost</th><th className={css.num}>Runs taken over</th><th>Id</th></tr></thead>
      <tbody>
        {nodes.map((node) => (
          <tr key={node.id}>
            <td><Link to={"/nodes/$id" as string} params={{ id: node.id } as never}>{node.name}</Link></td>
            <td><NodeState up={false} /></td>
            <td>{node.host}</td>
            <td className={css.num}>{node.pid}</td>
            <td className={css.nowrap}>{duration((millis(node.lost_at) ?? 0) - (millis(node.joined_at) ?? 0))}</td>
            <td><Time at={node.lost_at} /></td>
            <td className={css.num}>{node.freed.toLocaleString("en")}</td>
            <td className={`${css.mono} ${css.nowrap}`}>…{node.id.slice(-8)} <Copy text={node.id} name="id" /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function queues(node: Schemas["Node"]): string {
  return node.queues.join(", ") || "all";
}

/// The code that it knows, without what every node has.
function codes(node: Schemas["Node"]): string[] {
  return node.codes.filter((code) => !code.startsWith("outlast.")).sort();
}

interface About {
  version?: string;
  language?: string;
  target?: string;
  build?: string;
}

/// What it says of itself. A node of an older program says nothing.
function about(node: Schemas["Node"]): About {
  return (node.about ?? {}) as About;
}

/// How many runs it has in hand, of those that it takes at once.
function Slots({ node }: { node: Schemas["Node"] }) {
  if (!node.slots) return <>{node.holds.toLocaleString("en")}</>;
  return (
    <span className={css.used}>
      <span className={css.bar} aria-hidden="true"><span style={{ width: `${Math.min(100, (100 * node.holds) / node.slots)}%` }} /></span>
      {node.holds.toLocaleString("en")}<span className={css.muted}> / {node.slots.toLocaleString("en")}</span>
    </span>
  );
}

function NodeState({ up }: { up: boolean }) {
  return <span className={`${css.chip} ${up ? css.green : css.red}`}><i aria-hidden="true">{up ? "✓" : "✕"}</i>{up ? "up" : "lost"}</span>;
}

/// One node: where it runs, and what it has in hand.
export function NodePage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const [nodes, lost] = [useNodes(), useLost()];
  const node = nodes.data?.items.find((one) => one.id === id);
  const gone = lost.data?.items.find((one) => one.id === id);
  if (nodes.isPending || lost.isPending) return <Loading />;
  const known = node ?? gone;
  const refused = nodes.error ?? lost.error;
  if (!known) return refused ? <Problem error={refused} /> : <div className={css.empty}><h2>This node is not up</h2><p>It has left, or was lost more than a day ago. <Link to={"/nodes" as string}>To the nodes</Link></p></div>;
  return (
    <>
      <Head title={<><Back to="/nodes" name="Nodes" /> {known.name} <NodeState up={!!node && (millis(node.lease_until) ?? 0) > nodes.dataUpdatedAt} /></>} name={`${known.name}, node`} />
      <Facts facts={[
        ["Id", <span key="i" className={css.mono}>{known.id} <Copy text={known.id} name="id" /></span>], ["Host", known.host], ["Process", known.pid], ["Up since", <Time key="u" at={known.joined_at} />],
        ["Lease until", node && <Time key="l" at={node.lease_until} />], ["Slots used", node && <Slots key="s" node={node} />], ["Queues", node && queues(node)],
        ["Version", node && about(node).version], ["Language", node && about(node).language], ["Built for", node && [about(node).target, about(node).build].filter(Boolean).join(", ")], ["Knows", node && codes(node).join(", ")],
        ["Lost", gone && <Time key="g" at={gone.lost_at} />], ["Runs that others took over", gone?.freed.toLocaleString("en")],
      ]} />
      {node && <RunTable title="Runs in hand" search={{ node: node.id }} />}
    </>
  );
}
