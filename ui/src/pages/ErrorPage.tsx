// One kind of failure: what was said last, how often it happened when, and which runs failed.
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { api, data } from "../api/client";
import { useMay } from "../app/Shell";
import { spansOf } from "../lib/chart";
import type { Term } from "../lib/filter";
import { mute, useMuted } from "../lib/kept";
import { BRIEF } from "../lib/payload";
import { EVERY, lengthOf } from "../lib/sums";
import { serverNow } from "../lib/time";
import { Failed } from "../parts/Chart";
import { css, Head, Loading, Note, plain, Problem, Time } from "../parts/parts";
import { Back, Facts, RunTable } from "../parts/RunTable";
import { FailureView } from "../run/FailureView";
import run from "../run/run.module.css";
import { BulkDialog } from "./BulkDialog";
import { versions } from "./Errors";
import { RangeSwitch, useRange } from "./Overview";
import page from "./overview.module.css";

/// The longest range: a link to a group works for as long as the group is known.
const LONGEST = "31d";

export function ErrorPage() {
  const { fp } = useParams({ strict: false }) as { fp: string };
  const may = useMay("operate");
  const range = useRange();
  const isMuted = useMuted().includes(fp);
  const [asking, setAsking] = useState(false);
  const errors = useQuery({ queryKey: ["errors", "one", fp], queryFn: () => data(api.GET("/api/v1/errors", { params: { query: { range: LONGEST, fingerprint: fp } } })), refetchInterval: EVERY, placeholderData: undefined });
  const group = errors.data?.items[0];
  const last = useQuery({ queryKey: ["run", group?.last_run], queryFn: () => data(api.GET("/api/v1/runs/{id}", { params: { path: { id: group!.last_run }, query: { preview: BRIEF } } })), enabled: !!group, placeholderData: undefined });
  const lately = useQuery({
    queryKey: ["errors", "spans", range, fp],
    queryFn: async () => {
      const { items } = await data(api.GET("/api/v1/errors", { params: { query: { range, fingerprint: fp } } }));
      // Nothing is told of one that did not happen in that time.
      return spansOf(items[0]?.points ?? [], lengthOf(range), serverNow());
    },
    enabled: !!group, refetchInterval: EVERY,
  });
  if (errors.isPending) return <Loading />;
  if (!group && errors.error) return <Problem error={errors.error} />;
  const terms = [{ field: "status", value: "failed" }, ...(group ? [{ field: "def", value: group.definition }] : [])] as Term[];
  const search = { status: "failed", ...(group && { def: group.definition }), failure: fp };
  return (
    <>
      <Head title={<><Back to="/errors" name="Errors" search={{ range }} /> {group?.definition ?? "Failed alike"}</>}>
        <RangeSwitch to="/errors/$fp" params={{ fp }} />
        <button type="button" className={css.button} aria-pressed={isMuted} title="In this browser alone" onClick={() => mute(fp, !isMuted)}>{isMuted ? "Unmute" : "Mute"}</button>
        {may && <button type="button" className={`${css.button} ${css.primary}`} onClick={() => setAsking(true)}>Retry all like this…</button>}
      </Head>
      {group ? <div className={css.stack}>
        <Note tone="red"><span className={page.whole}>{plain(group.message) || "no message"}</span></Note>
        <Facts facts={[
          ["Runs", group.runs.toLocaleString("en")], ["Step", group.step && <code key="s">{group.step}</code>], ["Versions", versions(group.versions)], ["First", <Time key="f" at={group.first_at} />], ["Last", <Time key="l" at={group.last_at} />],
          ["Last run", <Link key="r" to={`/runs/${group.last_run}` as string} className={css.mono}>…{group.last_run.slice(-8)}</Link>], [group.tenants.length > 1 ? "Tenants" : "Tenant", group.tenants.filter(Boolean).join(", ")], ["Fingerprint", <code key="p">{group.fingerprint}</code>],
        ]} />
        {lately.data && <Failed spans={lately.data.spans} step={lately.data.step} />}
        {last.data?.error && <section className={run.panel} style={{ position: "static", maxHeight: "none" }} aria-label="The last one"><h2>The last one</h2><FailureView error={last.data.error} /></section>}
      </div> : <Note><span>Nothing that failed like this was summed up in the last {LONGEST}, or not yet: that takes some seconds.</span></Note>}
      <RunTable title={group ? `Failed runs of ${group.definition} that are like this` : "Failed runs that are like this"} search={search} keep={{ what: `failure ${fp}`, has: () => true }} />
      {asking && <BulkDialog terms={terms} failure={fp} first="retry" onClose={() => setAsking(false)} />}
    </>
  );
}
