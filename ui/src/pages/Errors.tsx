// Failures that are alike: one line for each kind, the last first.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { useTopics } from "../app/live";
import { useMuted } from "../lib/kept";
import { useShown } from "../lib/shown";
import { css, Head, Loading, plain, Problem, Time } from "../parts/parts";
import { SparkLine } from "../parts/Spark";
import { RangeSwitch, useRange } from "./Overview";
import page from "./overview.module.css";

export function ErrorsPage() {
  useTopics("runs");
  const range = useRange();
  const muted = useMuted();
  const [all, setAll] = useState(false);
  const { def } = useSearch({ strict: false }) as { def?: string };
  const navigate = useNavigate();
  const errors = useShown(useQuery({ queryKey: ["errors", range, def], queryFn: () => data(api.GET("/api/v1/errors", { params: { query: { range, def, limit: 500 } } })), refetchInterval: 5000 }));
  const known = useQuery({ queryKey: ["definitions"], queryFn: () => data(api.GET("/api/v1/definitions")) });
  const names = [...new Set([...(known.data?.items ?? []).map((one) => one.name).filter((name) => !name.startsWith("outlast.")), ...(def ? [def] : [])])].sort();
  const found = errors.data?.items ?? [];
  const loud = found.filter((group) => !muted.includes(group.fingerprint));
  const quiet = found.length - loud.length;
  return (
    <>
      <Head title="Errors">
        {quiet > 0 && <button type="button" className={css.button} aria-pressed={all} onClick={() => setAll(!all)}>{all ? "Hide muted" : `Show ${quiet} muted`}</button>}
        <label>Definition <select className={css.input} style={{ width: "auto" }} value={def ?? ""} onChange={(event) => void navigate({ to: "/errors" as string, search: ((before: object) => ({ ...before, def: event.target.value || undefined })) as never })}>
          <option value="">all</option>{names.map((name) => <option key={name}>{name}</option>)}
        </select></label>
        <RangeSwitch to="/errors" />
      </Head>
      <Problem error={errors.error} />
      {errors.isPending ? <Loading /> : (
        <div className={`${css.card} ${css.scroll}`}>
          {(all ? found : loud).length ? <ErrorTable items={all ? found : loud} range={range} /> : !errors.error && <div className={css.empty}>Nothing {quiet ? "else " : ""}failed in the last {range}{def ? ` of ${def}` : ""}.</div>}
        </div>
      )}
    </>
  );
}

/// With a range there is room for more: how many of them failed in that time, how that went, and since when.
export function ErrorTable({ items, range }: { items: Schemas["ErrorGroup"][]; range?: string }) {
  // Whoever goes on from here goes on with the same time.
  const search = { range: useRange() } as never;
  return (
    <table className={css.table}>
      <thead>
        <tr><th>What was said</th><th>Definition</th>{range && <><th>Step</th><th>Versions</th><th className={css.num}>In {range}</th><th><span className={css.hidden}>Over that time</span></th></>}<th className={css.num}>{range ? "In all" : "Runs"}</th>{range && <th>First</th>}<th>Last</th></tr>
      </thead>
      <tbody>
        {items.map((group) => (
          <tr key={group.fingerprint}>
            <td className={page.message}><p><Link to={"/errors/$fp" as string} params={{ fp: group.fingerprint } as never} search={search} title={plain(group.message)}>{plain(group.message).split("\n")[0] || "no message"}</Link></p></td>
            <td><Link to={"/definitions/$name" as string} params={{ name: group.definition } as never} search={search}>{group.definition}</Link></td>
            {range && <><td className={css.mono}>{group.step}</td><td className={css.nowrap}>{versions(group.versions)}</td></>}
            {range && <><td className={css.num}>{group.runs_in_range.toLocaleString("en")}</td><td><SparkLine counts={group.points} range={range} what="failed" /></td></>}
            <td className={css.num}>{group.runs.toLocaleString("en")}</td>
            {range && <td><Time at={group.first_at} /></td>}
            <td><Time at={group.last_at} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/// The versions of the definition in which runs failed so, the newest first.
export function versions(found: number[]): string {
  return found.map((version) => `@${version}`).join(", ");
}
