// What a run recorded, entry by entry, and what people asked of it in between: the timeline as a table. Which node recorded an entry is
// recorded nowhere.
import { queryOptions, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { write } from "../lib/json";
import { BRIEF } from "../lib/payload";
import { absolute, clock, duration, millis, serverNow } from "../lib/time";
import { useUtc } from "../lib/zone";
import { Payload } from "../parts/Payload";
import { css as parts, Loading, Problem } from "../parts/parts";
import { type Line, noteOf, told } from "./told";
import css from "./run.module.css";

/// What people asked of it, the last first.
export function askedOf(id: string) {
  return queryOptions({ queryKey: ["run", id, "actions"], queryFn: ({ signal }) => data(api.GET("/api/v1/runs/{id}/actions", { params: { path: { id } }, signal })), placeholderData: undefined });
}

interface Kind {
  /// Those that are shown; all where nothing is said.
  kind?: string;
  onKind: (kind: string | undefined) => void;
}

export function HistoryTab({ id, ...kind }: { id: string } & Kind) {
  const history = useInfiniteQuery({
    queryKey: ["run", id, "history"],
    queryFn: ({ pageParam, signal }) => data(api.GET("/api/v1/runs/{id}/history", { params: { path: { id }, query: { after: pageParam, limit: 500, preview: BRIEF } }, signal })),
    initialPageParam: 0,
    getNextPageParam: (page) => page.next_after ?? undefined,
  });
  const actions = useQuery(askedOf(id));
  if (history.isPending) return <Loading />;
  const items = history.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <>
      <Problem error={history.error ?? actions.error} />
      <HistoryTable run={id} entries={items} actions={actions.data?.items ?? []} hasMore={history.hasNextPage} {...kind} />
      {history.hasNextPage && <p><button type="button" className={parts.button} disabled={history.isFetchingNextPage} onClick={() => void history.fetchNextPage()}>More</button></p>}
    </>
  );
}

interface TableProps extends Kind {
  run: string;
  entries: Schemas["Entry"][];
  actions: Schemas["Action"][];
  hasMore: boolean;
}

export function HistoryTable({ run, entries, actions, hasMore, kind, onKind }: TableProps) {
  const utc = useUtc();
  const [open, setOpen] = useState<string | null>(null);
  const lines = told(entries, actions, hasMore);
  // The chosen one is among them, also where the entries that are here have none of it.
  const kinds = [...new Set([...lines.map((line) => line.kind), ...(kind ? [kind] : [])])];
  const shown = lines.filter((line) => !kind || line.kind === kind);
  return (
    <>
      <div className={css.bar2}>
        <label>Kind <select value={kind ?? ""} onChange={(event) => onKind(event.target.value || undefined)}><option value="">all</option>{kinds.map((one) => <option key={one}>{one}</option>)}</select></label>
        <span className={parts.muted}>{entries.length.toLocaleString("en")} entries{hasMore ? ", and more" : ""}</span>
      </div>
      <div className={`${parts.card} ${parts.scroll}`}>
        <table className={parts.table}>
          <thead><tr><th className={parts.num}>#</th><th>Time</th><th>Kind</th><th>Phase</th><th>Name</th><th>Body</th></tr></thead>
          <tbody>
            {shown.map((line) => (
              <tr key={line.key}>
                <td className={parts.num}>{line.pos}</td>
                <td className={parts.nowrap}>{absolute(millis(line.at) ?? 0, utc)}</td>
                <td>{line.kind}</td>
                <td>{line.phase}</td>
                <td><strong>{line.name}</strong></td>
                <td><Body run={run} line={line} isOpen={open === line.key} onOpen={() => setOpen(open === line.key ? null : line.key)} /></td>
              </tr>
            ))}
          </tbody>
        </table>
        {!shown.length && <div className={parts.empty}>{lines.length ? (hasMore ? `Nothing of this kind is among the first ${entries.length.toLocaleString("en")} entries: there are more.` : "Nothing of this kind is recorded.") : "Nothing is recorded yet."}</div>}
      </div>
    </>
  );
}

function Body({ run, line, isOpen, onOpen }: { run: string; line: Line; isOpen: boolean; onOpen: () => void }) {
  const utc = useUtc();
  const now = serverNow();
  const when = (time: number) => `${clock(time, now, utc)}${time > now ? ` (in ${duration(time - now)})` : ""}`;
  if (line.words !== undefined) return <>{line.words}</>;
  const text = line.preview?.text ?? (line.body === null || line.body === undefined ? "" : write(line.body));
  const note = noteOf(line, when);
  const whole = <Payload run={run} of={`entry:${line.pos}`} name={`body of ${line.name}`} value={line.body} preview={line.preview} />;
  if (note?.text) {
    return (
      <>
        {note.text}{note.run && <> <Link to={`/runs/${note.run}` as string} className={parts.mono}>…{note.run.slice(-8)}</Link></>}
        <button type="button" className={parts.bare} aria-expanded={isOpen} aria-label={`raw entry ${line.pos}`} onClick={onOpen}>raw</button>
        {isOpen && whole}
      </>
    );
  }
  if (text.length <= 80) return <span className={parts.mono}>{text}</span>;
  if (isOpen) return whole;
  return <button type="button" className={`${parts.bare} ${parts.mono}`} onClick={onOpen}>{text.slice(0, 80)}…</button>;
}
