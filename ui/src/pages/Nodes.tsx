// Nodes: the processes that run work, and how long each one's lease still holds.
import { useQuery } from "@tanstack/react-query";
import { api, data } from "../api/client";
import { millis } from "../lib/time";
import { Copy, css, Head, Loading, Problem, Time, useNow } from "../parts/parts";

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
                    <td><strong>{node.name}</strong></td>
                    <td><span className={`${css.chip} ${up ? css.green : css.red}`}><i aria-hidden="true">{up ? "✓" : "✕"}</i>{up ? "up" : "lost"}</span></td>
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
