// What a run recorded, entry by entry: the timeline as a table.
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import { write } from "../lib/json";
import { absolute, millis } from "../lib/time";
import { JsonView } from "../parts/JsonView";
import { css as parts, Loading, Problem } from "../parts/parts";
import css from "./run.module.css";

export function HistoryTab({ id }: { id: string }) {
  const [op, setOp] = useState("");
  const [open, setOpen] = useState<number | null>(null);
  const history = useInfiniteQuery({
    queryKey: ["run", id, "history"],
    queryFn: ({ pageParam, signal }) => data(api.GET("/api/v1/runs/{id}/history", { params: { path: { id }, query: { after: pageParam, limit: 500 } }, signal })),
    initialPageParam: 0,
    getNextPageParam: (page) => page.next_after ?? undefined,
  });
  if (history.isPending) return <Loading />;
  const items = history.data?.pages.flatMap((page) => page.items) ?? [];
  const ops = [...new Set(items.map((entry) => entry.op))];
  return (
    <>
      <Problem error={history.error} />
      <div className={css.bar2}>
        <label>Kind <select value={op} onChange={(event) => setOp(event.target.value)}><option value="">all</option>{ops.map((one) => <option key={one}>{one}</option>)}</select></label>
        <span className={parts.muted}>{items.length.toLocaleString("en")} entries{history.hasNextPage ? ", and more" : ""}</span>
      </div>
      <div className={`${parts.card} ${parts.scroll}`}>
        <table className={parts.table}>
          <thead><tr><th className={parts.num}>#</th><th>Time</th><th>Kind</th><th>Phase</th><th>Name</th><th>Body</th></tr></thead>
          <tbody>
            {items.filter((entry) => !op || entry.op === op).map((entry) => {
              const text = entry.body === null || entry.body === undefined ? "" : write(entry.body);
              return (
                <tr key={entry.pos}>
                  <td className={parts.num}>{entry.pos}</td>
                  <td className={parts.nowrap}>{absolute(millis(entry.at) ?? 0)}</td>
                  <td>{entry.op}</td>
                  <td>{entry.phase}</td>
                  <td><strong>{entry.name}</strong></td>
                  <td className={parts.mono}>
                    {text.length > 80
                      ? open === entry.pos ? <JsonView value={entry.body} name={`body of ${entry.name}`} /> : <button type="button" className={parts.bare} onClick={() => setOpen(entry.pos)}>{text.slice(0, 80)}…</button>
                      : text}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
        {!items.length && <div className={parts.empty}>Nothing is recorded yet.</div>}
      </div>
      {history.hasNextPage && <p><button type="button" className={parts.button} disabled={history.isFetchingNextPage} onClick={() => void history.fetchNextPage()}>More</button></p>}
    </>
  );
}
