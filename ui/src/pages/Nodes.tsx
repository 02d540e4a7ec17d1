// Nodes: the processes that run work, and how long each one's lease still holds.
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { api, data } from "../api/client";
import { millis } from "../lib/time";
import { Copy, css, Head, Loading, Problem, Time, useNow } from "../parts/parts";
import { Back, Facts, RunTable } from "../parts/RunTable";

export function NodesPage() {
  const now = useNow();
  const nodes = useQuery({ queryKey: ["nodes"], queryFn: () => data(api.GET("/api/v1/nodes")), refetchInterval: 5000 });
  return (
    <>
      <Head title="Nodes" />
      <Problem error={nodes.error} />
      {nodes.isPending ? <Loading /> : (
        <div className={`${css.card} ${css.scroll}`}>
          <table className={css.table}>
            <thead><tr><th>Name</th><th>State</th><th>Host</th><th className={css.num}>Process</th><th>Up since</th><th>Lease until</th><th className={css.num}>Runs in hand</th><th>Id</th></tr></thead>
            <tbody>
              {nodes.data?.items.map((node) => {
                const up = (millis(node.lease_until) ?? 0) > now;
                return (
                  <tr key={node.id}>
                    <td><Link to={"/nodes/$id" as string} params={{ id: node.id } as never}>{node.name}</Link></td>
                    <td><NodeState up={up} /></td>
                    <td>{node.host}</td>
                    <td className={css.num}>{node.pid}</td>
                    <td><Time at={node.joined_at} /></td>
                    <td><Time at={node.lease_until} /></td>
                    <td className={css.num}>{node.holds.toLocaleString("en")}</td>
                    <td className={`${css.mono} ${css.nowrap}`}>…{node.id.slice(-8)} <Copy text={node.id} name="id" /></td>
                  </tr>
                );
              })}
            </tbody>
          </table>
          {!nodes.data?.items.length && !nodes.error && <div className={css.empty}><h2>No node is up</h2><p>Nothing runs until one is: start your program, or <code>outlast dev</code>.</p></div>}
        </div>
      )}
    </>
  );
}

function NodeState({ up }: { up: boolean }) {
  return <span className={`${css.chip} ${up ? css.green : css.red}`}><i aria-hidden="true">{up ? "✓" : "✕"}</i>{up ? "up" : "lost"}</span>;
}

/// One node: where it runs, and what it has in hand.
export function NodePage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const now = useNow();
  const nodes = useQuery({ queryKey: ["nodes"], queryFn: () => data(api.GET("/api/v1/nodes")), refetchInterval: 5000 });
  const node = nodes.data?.items.find((one) => one.id === id);
  if (nodes.isPending) return <Loading />;
  if (!node) return nodes.error ? <Problem error={nodes.error} /> : <div className={css.empty}><h2>This node is not up</h2><p>It has left, or its lease ended and others took over what it had. <Link to={"/nodes" as string}>To the nodes</Link></p></div>;
  return (
    <>
      <Head title={<><Back to="/nodes" name="Nodes" /> {node.name} <NodeState up={(millis(node.lease_until) ?? 0) > now} /></>} />
      <Facts facts={[
        ["Id", <span key="i" className={css.mono}>{node.id} <Copy text={node.id} name="id" /></span>], ["Host", node.host], ["Process", node.pid],
        ["Up since", <Time key="u" at={node.joined_at} />], ["Lease until", <Time key="l" at={node.lease_until} />], ["Runs in hand", node.holds.toLocaleString("en")],
      ]} />
      <RunTable title="Runs in hand" search={{ status: ["running", "undoing"] }} keep={(run) => run.node === node.id} limit={200} />
    </>
  );
}
