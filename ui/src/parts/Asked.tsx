// What people did to a queue or a schedule: who holds it back and why, and all of it from the last on.
import { queryOptions, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import { did, holder } from "../lib/asked";
import { css, Note, Problem, Time } from "./parts";

interface Of {
  of: "queues" | "schedules";
  name: string;
}

const EVERY = 10_000;
/// So many are shown at first.
const FEW = 10;

function askedOf({ of, name }: Of) {
  return queryOptions({
    queryKey: [of, name, "actions"],
    queryFn: ({ signal }) => data(api.GET(`/api/v1/${of}/{name}/actions` as "/api/v1/queues/{name}/actions", { params: { path: { name } }, signal })),
    refetchInterval: EVERY, placeholderData: undefined,
  });
}

interface Held extends Of {
  /// What it is: Paused, Drained.
  word: string;
  /// What brings it into this state, as the audit log calls it; and what ends that.
  act: string;
  others: string[];
  since?: string | null;
  means?: string;
}

/// Who holds it back, and why, as far as somebody noted that; and what it means.
export function HeldBy({ of, name, word, act, others, since, means }: Held) {
  const asked = useQuery(askedOf({ of, name }));
  const by = asked.data && holder(asked.data.items, act, others, since);
  if (!by && !means) return null;
  return <Note tone="amber">{by && <span>{word} by <strong>{by.actor}</strong> <Time at={by.at} />{by.reason ? <>: {by.reason}</> : ", who gave no reason"}</span>}{means && <span>{means}</span>}</Note>;
}

export function Asked({ of, name }: Of) {
  const asked = useQuery(askedOf({ of, name }));
  const [isAll, setAll] = useState(false);
  const items = asked.data?.items ?? [];
  if (asked.isPending) return null;
  return (
    <section className={`${css.card} ${css.scroll} ${css.section}`} aria-label="What people did">
      <h2>What people did</h2>
      <Problem error={asked.error} />
      {items.length > 0 && (
        <table className={css.table}>
          <thead><tr><th>When</th><th>Who</th><th>What</th><th>Why</th></tr></thead>
          <tbody>
            {items.slice(0, isAll ? items.length : FEW).map((one, nth) => (
              <tr key={`${one.at} ${nth}`}>
                <td><Time at={one.at} /></td>
                <td className={css.short} title={one.actor}>{one.actor}</td>
                <td className={one.status < 400 ? css.nowrap : `${css.nowrap} ${css.muted}`}>{did(one)}</td>
                <td className={css.whole}>{one.reason ?? <span className={css.muted}>–</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {!items.length && !asked.error && <div className={css.empty}>Nobody changed it through the dashboard, the API or a command.</div>}
      {!isAll && items.length > FEW && <p className={css.under}><button type="button" className={`${css.button} ${css.small}`} onClick={() => setAll(true)}>All {items.length}</button></p>}
    </section>
  );
}
