// What a run recorded, entry by entry, and what people asked of it in between: the timeline as a table. Which node recorded an entry is
// recorded nowhere.
import { queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { write } from "../lib/json";
import { BRIEF } from "../lib/payload";
import { absolute, clock, duration, millis, serverNow } from "../lib/time";
import { useUtc } from "../lib/zone";
import { Payload } from "../parts/Payload";
import { css as parts, Loading, Problem } from "../parts/parts";
import { type Known, laterEntries, PAGE } from "./entries";
import { beginsUndo, type Line, linesOf, noteOf, OPERATOR } from "./told";
import css from "./run.module.css";

/// What people asked of it, the last first.
export function askedOf(id: string) {
  return queryOptions({ queryKey: ["run", id, "actions"], queryFn: ({ signal }) => data(api.GET("/api/v1/runs/{id}/actions", { params: { path: { id } }, signal })), placeholderData: undefined });
}

const ROW = 41;

interface Kind {
  /// Those that are shown; all where nothing is said.
  kind?: string;
  onKind: (kind: string | undefined) => void;
}

/// Entries that are not here yet.
interface More {
  ask: () => void;
  isAsking: boolean;
  /// They could not be had: they are asked for again when somebody says so, and not before.
  isBroken: boolean;
}

export function HistoryTab({ id, ...kind }: { id: string } & Kind) {
  const client = useQueryClient();
  // So many somebody has come to.
  const wanted = useRef(0);
  const queryKey = ["run", id, "history"];
  const history = useQuery({
    queryKey,
    queryFn: ({ signal }) => {
      const page = (after: number) => data(api.GET("/api/v1/runs/{id}/history", { params: { path: { id }, query: { after, limit: PAGE, preview: BRIEF } }, signal }));
      return laterEntries(client.getQueryData<Known>(queryKey), page, wanted.current);
    },
    // What has come is not compared with what has come.
    structuralSharing: false, placeholderData: undefined,
  });
  const actions = useQuery(askedOf(id));
  const entries = history.data?.entries ?? NO_ENTRIES;
  const ask = () => {
    wanted.current = entries.length + 1;
    void history.refetch();
  };
  if (history.isPending || (actions.isPending && !actions.error)) return <Loading />;
  const more = history.data?.isAll === false ? { ask, isAsking: history.isFetching, isBroken: history.isError } : undefined;
  return (
    <>
      <Problem error={history.error ?? actions.error} />
      <HistoryTable run={id} entries={entries} actions={actions.data?.items ?? NONE} more={more} {...kind} />
    </>
  );
}

const NO_ENTRIES: Schemas["Entry"][] = [];
const NONE: Schemas["Action"][] = [];

interface TableProps extends Kind {
  run: string;
  entries: Schemas["Entry"][];
  actions?: Schemas["Action"][];
  more?: More;
}

/// Only the rows on the screen are in the document. More entries are asked for when somebody has come to the last row; and while too few are
/// of the kind that is looked for to fill the screen, without anybody scrolling.
export function HistoryTable({ run, entries, actions = NONE, more: rest, kind, onKind }: TableProps) {
  const utc = useUtc();
  const [open, setOpen] = useState<string | null>(null);
  const box = useRef<HTMLDivElement>(null);
  // What people did has all come at once.
  const more = kind === OPERATOR ? undefined : rest;
  const lines = useMemo(() => linesOf(entries, actions, rest !== undefined, kind), [entries, actions, rest !== undefined, kind]); // eslint-disable-line react-hooks/exhaustive-deps
  // The chosen one is among them, also where the entries that are here have none of it.
  const kinds = useMemo(() => [...new Set([...entries.map((entry) => entry.op), ...(actions.length ? [OPERATOR] : []), ...(kind ? [kind] : [])])], [entries, actions, kind]);
  const rows = useVirtualizer({ count: lines.length, getScrollElement: () => box.current, estimateSize: () => ROW, overscan: 12, getItemKey: (index) => lines[index]!.key });
  const shown = rows.getVirtualItems();
  const isAtEnd = !lines.length || shown.at(-1)?.index === lines.length - 1;
  const asks = isAtEnd && more !== undefined && !more.isAsking && !more.isBroken;
  useEffect(() => {
    if (asks) more.ask();
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [asks, entries.length]);
  const [above, below] = [shown[0]?.start ?? 0, rows.getTotalSize() - (shown.at(-1)?.end ?? 0)];
  const count = entries.length.toLocaleString("en");
  return (
    <>
      <div className={css.bar2}>
        <label>Kind <select value={kind ?? ""} onChange={(event) => onKind(event.target.value || undefined)}><option value="">all</option>{kinds.map((one) => <option key={one}>{one}</option>)}</select></label>
        <span className={parts.muted}>{count} entries{rest ? ", and more" : ""}</span>
      </div>
      <div className={`${parts.card} ${css.history}`} ref={box} tabIndex={0} role="group" aria-label="Entries">
        <table className={parts.table} aria-rowcount={more ? -1 : lines.length + 1}>
          <thead><tr><th className={parts.num}>#</th><th>Time</th><th>Kind</th><th>Phase</th><th>Name</th><th>Body</th></tr></thead>
          <tbody>
            <Room height={above} />
            {shown.map(({ index, key }) => {
              const line = lines[index]!;
              return (
                <tr key={key} data-index={index} aria-rowindex={index + 2} ref={rows.measureElement}>
                  <td className={parts.num}>{line.pos}</td>
                  <td>{absolute(millis(line.at) ?? 0, utc)}</td>
                  <td>{line.kind}</td>
                  <td>{line.phase}</td>
                  <td><strong>{beginsUndo(line) ? "" : line.name}</strong></td>
                  <td><Body run={run} line={line} isOpen={open === line.key} onOpen={() => setOpen(open === line.key ? null : line.key)} /></td>
                </tr>
              );
            })}
            <Room height={below} />
          </tbody>
        </table>
        {!lines.length && !more && <div className={parts.empty}>{kind ? "Nothing of this kind is recorded." : "Nothing is recorded yet."}</div>}
      </div>
      <div className={css.more} role="status">
        {more?.isBroken ? <>There is more, and it could not be had. <button type="button" className={`${parts.button} ${parts.small}`} onClick={more.ask}>Try again</button></>
          : more && isAtEnd && (kind && !lines.length ? `Nothing of this kind is among the first ${count} entries: looking on…` : "Loading…")}
      </div>
    </>
  );
}

/// What rows would take that are not on the screen.
function Room({ height }: { height: number }) {
  return height > 0 ? <tr aria-hidden="true"><td colSpan={6} style={{ height, padding: 0, border: 0 }} /></tr> : null;
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
