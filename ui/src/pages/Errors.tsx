// Failures that are alike: one line for each kind, the last first.
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { useTopics } from "../app/live";
import { useMay } from "../app/Shell";
import type { Term } from "../lib/filter";
import { JsonView } from "../parts/JsonView";
import { css, Head, Loading, Note, plain, Problem, Time } from "../parts/parts";
import { Back, Facts, RunTable } from "../parts/RunTable";
import { BulkDialog } from "./BulkDialog";
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
            <td className={page.message}><p><Link to={"/errors/$fp" as string} params={{ fp: group.fingerprint } as never} title={plain(group.message)}>{plain(group.message).split("\n")[0] || "no message"}</Link></p></td>
            <td><Link to={"/definitions/$name" as string} params={{ name: group.definition } as never}>{group.definition}</Link></td>
            <td className={css.num}>{group.runs.toLocaleString("en")}</td>
            {whole && <td><Time at={group.first_at} /></td>}
            <td><Time at={group.last_at} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/// The longest range: a link to a group works for as long as the group is known.
const LONGEST = "31d";

/// One kind of failure: what was said last, and which runs failed.
export function ErrorPage() {
  const { fp } = useParams({ strict: false }) as { fp: string };
  const may = useMay("operate");
  const [asking, setAsking] = useState(false);
  const errors = useQuery({ queryKey: ["errors", "all"], queryFn: () => data(api.GET("/api/v1/errors", { params: { query: { range: LONGEST, limit: 500 } } })), refetchInterval: 5000 });
  const group = errors.data?.items.find((one) => one.fingerprint === fp);
  const last = useQuery({ queryKey: ["run", group?.last_run], queryFn: () => data(api.GET("/api/v1/runs/{id}", { params: { path: { id: group!.last_run } } })), enabled: !!group, placeholderData: undefined });
  if (errors.isPending) return <Loading />;
  if (!group) return errors.error ? <Problem error={errors.error} /> : <div className={css.empty}><h2>Nothing failed like this lately</h2><p><Link to={"/errors" as string}>To the errors</Link></p></div>;
  const terms = [{ field: "status", value: "failed" }, { field: "def", value: group.definition }] as Term[];
  return (
    <>
      <Head title={<><Back to="/errors" name="Errors" /> {group.definition}</>}>
        {may && <button type="button" className={css.button} onClick={() => setAsking(true)}>Act on failed runs…</button>}
      </Head>
      <div className={css.stack}>
        <Note tone="red"><span className={page.whole}>{plain(group.message) || "no message"}</span></Note>
        <Facts facts={[
          ["Runs", group.runs.toLocaleString("en")], ["First", <Time key="f" at={group.first_at} />], ["Last", <Time key="l" at={group.last_at} />],
          ["Last run", <Link key="r" to={`/runs/${group.last_run}` as string} className={css.mono}>…{group.last_run.slice(-8)}</Link>], ["Tenant", group.tenant], ["Fingerprint", <code key="p">{group.fingerprint}</code>],
        ]} />
        {last.data?.error && <section><h2>The last one, whole</h2><JsonView value={last.data.error.detail ?? last.data.error} name="error" /></section>}
      </div>
      <RunTable title={`Failed runs of ${group.definition}`} search={{ status: "failed", def: group.definition }} />
      {asking && <BulkDialog terms={terms} first="retry" onClose={() => setAsking(false)} />}
    </>
  );
}
