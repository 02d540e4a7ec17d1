// A few runs of something, on the page of that thing; all of them are in the list of runs.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { fewRuns, type Keep } from "../lib/first";
import { useShown } from "../lib/shown";
import { type Run, stateOf } from "../lib/state";
import { between, duration, millis } from "../lib/time";
import { waiting } from "../lib/wait";
import { css, Loading, Problem, StateChip, Time, useNow } from "./parts";

const FEW = 10;

/// Narrowed as the list's address is; with `keep` it is asked for every so often, and not with everything that happens.
export function RunTable({ title, search, keep }: { title: string; search: Record<string, string | string[]>; keep?: Keep }) {
  const now = useNow();
  const runs = useShown(useQuery(fewRuns(search, FEW, keep)));
  const items = runs.data?.found ?? [];
  return (
    <section className={`${css.card} ${css.scroll} ${css.section}`}>
      <h2><Link to={"/runs" as string} search={search as never}>{title}</Link></h2>
      <Problem error={runs.error} />
      {runs.isPending ? <Loading /> : items.length ? (
        <table className={css.table}>
          <thead><tr><th>State</th><th>Definition</th><th>Key or id</th><th>Created</th><th>Took</th><th>Error, waits for</th></tr></thead>
          <tbody>
            {items.map((run) => (
              <tr key={run.id}>
                <td><StateChip state={stateOf(run, now)} /></td>
                <td>{run.definition}</td>
                <td><Link to={`/runs/${run.id}` as string}>{run.key ?? `…${run.id.slice(-8)}`}</Link></td>
                <td><Time at={run.created_at} /></td>
                <td className={css.nowrap}>{run.finished_at ? duration(between(millis(run.created_at) ?? now, millis(run.finished_at) ?? now)) : <span className={css.muted}>–</span>}</td>
                <td className={`${css.muted} ${css.short}`} title={saidOf(run, now)}>{saidOf(run, now)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : !runs.error && <div className={css.empty}>{runs.data?.isAll === false ? `There is none among the ${runs.data.looked.toLocaleString("en")} newest.` : "There is none."}</div>}
    </section>
  );
}

function saidOf(run: Run, now: number): string | undefined {
  return run.error?.message ?? (run.waiting_for ? waiting(run.waiting_for, now).whole : run.reason ?? undefined);
}

/// What is known of a thing, one fact after the other.
export function Facts({ facts }: { facts: [string, React.ReactNode][] }) {
  return (
    <dl className={css.facts}>
      {facts.filter(([, fact]) => fact !== null && fact !== undefined && fact !== "").map(([name, fact]) => <div key={name}><dt>{name}</dt><dd>{fact}</dd></div>)}
    </dl>
  );
}

/// The way back to the list of such things, as it was narrowed.
export function Back({ to, name, search }: { to: string; name: string; search?: Record<string, string> }) {
  return <Link to={to as string} search={search as never} className={css.back}>{name}</Link>;
}
