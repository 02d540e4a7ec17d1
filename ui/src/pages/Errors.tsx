// Failures that are alike: one line for each kind, the last first.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, data, type Schemas } from "../api/client";
import { useTopics } from "../app/live";
import { css, Head, Loading, plain, Problem, Time } from "../parts/parts";
import { RangeSwitch, useRange } from "./Overview";
import page from "./overview.module.css";

export function ErrorsPage() {
  useTopics("runs");
  const range = useRange();
  const errors = useQuery({ queryKey: ["errors", range], queryFn: () => data(api.GET("/api/v1/errors", { params: { query: { range } } })), refetchInterval: 5000 });
  return (
    <>
      <Head title="Errors"><RangeSwitch to="/errors" /></Head>
      <Problem error={errors.error} />
      {errors.isPending ? <Loading /> : (
        <div className={`${css.card} ${css.scroll}`}>
          {errors.data?.items.length ? <ErrorTable items={errors.data.items} whole /> : !errors.error && <div className={css.empty}>Nothing failed in the last {range}.</div>}
        </div>
      )}
    </>
  );
}

export function ErrorTable({ items, whole = false }: { items: Schemas["ErrorGroup"][]; whole?: boolean }) {
  return (
    <table className={css.table}>
      <thead>
        <tr><th>What was said</th><th>Definition</th><th className={css.num}>Runs</th>{whole && <th>First</th>}<th>Last</th></tr>
      </thead>
      <tbody>
        {items.map((group) => (
          <tr key={`${group.tenant} ${group.fingerprint}`}>
            <td className={page.message}><p><Link to={"/runs/$id" as string} params={{ id: group.last_run } as never} title={plain(group.message)}>{plain(group.message).split("\n")[0] || "no message"}</Link></p></td>
            <td><Link to={"/runs" as string} search={{ status: "failed", def: group.definition } as never}>{group.definition}</Link></td>
            <td className={css.num}>{group.runs.toLocaleString("en")}</td>
            {whole && <td><Time at={group.first_at} /></td>}
            <td><Time at={group.last_at} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
