// What a run's handlers logged. Only the lines on the screen are in the document. Follows the end unless somebody has scrolled away.
import { useInfiniteQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { absolute, clock, millis, serverNow } from "../lib/time";
import { useUtc } from "../lib/zone";
import { css as parts, download, Loading, plain, Problem } from "../parts/parts";
import css from "./run.module.css";

const LEVELS = ["error", "warn", "info", "debug", "trace"] as const;
const TONES: Record<string, string | undefined> = { error: parts.red, warn: parts.amber, info: parts.blue };
/// Lines of one answer.
const PAGE = 1000;
const LINE = 24;

interface Props {
  id: string;
  /// What the address says is shown.
  level?: string;
  text?: string;
  onFilter: (filter: { level?: string; text?: string }) => void;
}

/// Everything is of this level or above it.
const ALL = "trace";

export function LogsTab({ id, level: asked, text: given = "", onFilter }: Props) {
  const utc = useUtc();
  const level = LEVELS.find((one) => one === asked) ?? ALL;
  // What is typed is here at once, and in the address a moment later.
  const [text, setText] = useState(given);
  const type = (text: string) => {
    setText(text);
    onFilter({ text: text || undefined });
  };
  const [follow, setFollow] = useState(true);
  const box = useRef<HTMLDivElement>(null);
  const logs = useInfiniteQuery({
    queryKey: ["run", id, "logs", level],
    queryFn: async ({ pageParam, signal }) => (await data(api.GET("/api/v1/runs/{id}/logs", { params: { path: { id }, query: { level, after: pageParam, limit: PAGE } }, signal }))) as Schemas["Logs"],
    initialPageParam: 0,
    // Lines of lower levels are counted and not sent: only a page that got no further is the last.
    getNextPageParam: (page, _, after) => (page.next_after - after >= PAGE ? page.next_after : undefined),
  });
  const { hasNextPage, isFetching, isError, fetchNextPage } = logs;
  useEffect(() => {
    // What could not be had is not asked for again and again: somebody says when.
    if (hasNextPage && !isFetching && !isError) void fetchNextPage();
  }, [hasNextPage, isFetching, isError, fetchNextPage]);
  const all = logs.data?.pages.flatMap((page) => page.items) ?? [];
  const lines = text ? all.filter((line) => line.message.toLowerCase().includes(text.toLowerCase())) : all;
  const rows = useVirtualizer({ count: lines.length, getScrollElement: () => box.current, estimateSize: () => LINE, overscan: 20 });
  useEffect(() => {
    if (follow && lines.length) rows.scrollToIndex(lines.length - 1, { align: "end" });
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [follow, lines.length]);
  const place = useRef(0);
  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current!;
    const isUp = scrollTop < place.current;
    place.current = scrollTop;
    // Whoever scrolls up wants to read, and not to be taken away, whatever they do it with. To follow is to scroll down alone.
    if (follow && isUp && scrollHeight - scrollTop - clientHeight > LINE) setFollow(false);
  };
  if (logs.isPending) return <Loading />;
  const now = serverNow();
  return (
    <>
      <Problem error={logs.error} />
      {isError && <p><button type="button" className={parts.button} disabled={isFetching} onClick={() => void (hasNextPage ? fetchNextPage() : logs.refetch())}>Try again</button></p>}
      <div className={css.bar2}>
        <label>At least <select value={level} onChange={(event) => onFilter({ level: event.target.value === ALL ? undefined : event.target.value })}>{LEVELS.map((one) => <option key={one}>{one}</option>)}</select></label>
        <input className={parts.input} style={{ width: 240 }} placeholder="with these letters" aria-label="Lines with these letters" value={text} onChange={(event) => type(event.target.value)} />
        <label className={parts.check}><input type="checkbox" checked={follow} onChange={(event) => setFollow(event.target.checked)} /> follow</label>
        <button type="button" className={parts.button} onClick={() => download(`${id}.log`, lines.map((line) => `${line.at} ${line.level} ${plain(line.message)}\n`).join(""), "text/plain")}>Download the lines shown</button>
        <span className={parts.muted}>{lines.length.toLocaleString("en")} {lines.length === 1 ? "line" : "lines"}{hasNextPage ? ", and more" : ""}</span>
      </div>
      {lines.length ? (
        <div className={css.logs} ref={box} tabIndex={0} role="log" aria-label="Log" onScroll={scrolled}>
          <div style={{ height: rows.getTotalSize(), position: "relative" }}>
            {rows.getVirtualItems().map((item) => {
              const line = lines[item.index]!;
              return (
                <div className={css.log} key={item.key} data-index={item.index} ref={rows.measureElement} style={{ position: "absolute", top: 0, left: 0, right: 0, transform: `translateY(${item.start}px)` }}>
                  <span className={parts.muted} title={absolute(millis(line.at) ?? now, utc)}>{clock(millis(line.at) ?? now, now, utc)}</span>
                  <span><span className={`${parts.chip} ${TONES[line.level] ?? parts.grey}`}>{line.level}</span></span>
                  <span>{plain(line.message)}</span>
                </div>
              );
            })}
          </div>
        </div>
      ) : <div className={`${parts.card} ${parts.empty}`}>No line {text || level !== ALL ? "fits" : "was logged"}.</div>}
    </>
  );
}
