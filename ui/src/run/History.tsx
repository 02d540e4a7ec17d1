// What a run recorded, entry by entry, and what people asked of it in between: the timeline as a table.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { write } from "../lib/json";
import { absolute, millis } from "../lib/time";
import { useUtc } from "../lib/zone";
import { JsonView } from "../parts/JsonView";
import { css as parts, Loading, Problem } from "../parts/parts";
import { type Line, told } from "./told";
import css from "./run.module.css";

export function HistoryTab({ id }: { id: string }) {
  const history = useInfiniteQuery({
    queryKey: ["run", id, "history"],
    queryFn: ({ pageParam, signal }) => data(api.GET("/api/v1/runs/{id}/history", { params: { path: { id }, query: { after: pageParam, limit: 500 } }, signal })),
    initialPageParam: 0,
    getNextPageParam: (page) => page.next_after ?? undefined,
  });
  const actions = useQuery({ queryKey: ["run", id, "actions"], queryFn: ({ signal }) => data(api.GET("/api/v1/runs/{id}/actions", { params: { path: { id } }, signal })), placeholderData: undefined });
  if (history.isPending) return <Loading />;
  const items = history.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <>
      <Problem error={history.error ?? actions.error} />
      <HistoryTable entries={items} actions={actions.data?.items ?? []} hasMore={history.hasNextPage} />
      {history.hasNextPage && <p><button type="button" className={parts.button} disabled={history.isFetchingNextPage} onClick={() => void history.fetchNextPage()}>More</button></p>}
    </>
  );
}

export function HistoryTable({ entries, actions, hasMore }: { entries: Schemas["Entry"][]; actions: Schemas["Action"][]; hasMore: boolean }) {
  const utc = useUtc();
  const [kind, setKind] = useState("");
  const [open, setOpen] = useState<string | null>(null);
  const lines = told(entries, actions, hasMore);
  const kinds = [...new Set(lines.map((line) => line.kind))];
  return (
    <>
      <div className={css.bar2}>
        <label>Kind <select value={kind} onChange={(event) => setKind(event.target.value)}><option value="">all</option>{kinds.map((one) => <option key={one}>{one}</option>)}</select></label>
        <span className={parts.muted}>{entries.length.toLocaleString("en")} entries{hasMore ? ", and more" : ""}</span>
      </div>
      <div className={`${parts.card} ${parts.scroll}`}>
        <table className={parts.table}>
          <thead><tr><th className={parts.num}>#</th><th>Time</th><th>Kind</th><th>Phase</th><th>Name</th><th>Body</th></tr></thead>
          <tbody>
            {lines.filter((line) => !kind || line.kind === kind).map((line) => (
              <tr key={line.key}>
                <td className={parts.num}>{line.pos}</td>
                <td className={parts.nowrap}>{absolute(millis(line.at) ?? 0, utc)}</td>
                <td>{line.kind}</td>
                <td>{line.phase}</td>
                <td><strong>{line.name}</strong></td>
                <td><Body line={line} isOpen={open === line.key} onOpen={() => setOpen(line.key)} /></td>
              </tr>
            ))}
          </tbody>
        </table>
        {!lines.length && <div className={parts.empty}>Nothing is recorded yet.</div>}
      </div>
    </>
  );
}

function Body({ line, isOpen, onOpen }: { line: Line; isOpen: boolean; onOpen: () => void }) {
  if (line.words !== undefined) return <>{line.words}</>;
  const text = line.body === null || line.body === undefined ? "" : write(line.body);
  if (text.length <= 80) return <span className={parts.mono}>{text}</span>;
  if (isOpen) return <JsonView value={line.body} name={`body of ${line.name}`} />;
  return <button type="button" className={`${parts.bare} ${parts.mono}`} onClick={onOpen}>{text.slice(0, 80)}…</button>;
}
