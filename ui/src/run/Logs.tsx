// What a run's handlers logged. Only the lines on the screen are in the document. Follows the end unless somebody has scrolled away.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import { api, data, type Schemas } from "../api/client";
import type { Step } from "../lib/state";
import { absolute, clock, millis, serverNow } from "../lib/time";
import { useUtc } from "../lib/zone";
import { css as parts, download, Loading, plain, Problem } from "../parts/parts";
import { laterLines, type Known, narrowings, PAGE, stepsOfLines, written } from "./lines";
import own from "./logs.module.css";
import css from "./run.module.css";

const LEVELS = ["error", "warn", "info", "debug", "trace"] as const;
const TONES: Record<string, string | undefined> = { error: parts.red, warn: parts.amber, info: parts.blue };
const LINE = 24;

/// What the address says is shown.
interface Shown {
  level?: string;
  text?: string;
  /// Of which step, by its name.
  logstep?: string;
}

interface Props extends Shown {
  id: string;
  steps: Step[];
  onFilter: (filter: Shown) => void;
}

/// Everything is of this level or above it.
const ALL = "trace";

export function LogsTab({ id, steps, level: asked, text: given = "", logstep: step, onFilter }: Props) {
  const client = useQueryClient();
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
  const queryKey = ["run", id, "logs", level, step];
  const logs = useQuery({
    queryKey,
    queryFn: ({ signal }) => {
      const page = async (after: number) => (await data(api.GET("/api/v1/runs/{id}/logs", { params: { path: { id }, query: { level, step, after, limit: PAGE } }, signal }))) as Schemas["Logs"];
      return laterLines(client.getQueryData<Known<Schemas["Log"]>>(queryKey), page, { show: (log) => client.setQueryData(queryKey, log) });
    },
    // What has come is not compared with what has come.
    structuralSharing: false,
  });
  const { isFetching, isError } = logs;
  const places = useMemo(() => stepsOfLines(steps), [steps]);
  const all = logs.data?.lines ?? [];
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
      {isError && <p><button type="button" className={parts.button} disabled={isFetching} onClick={() => void logs.refetch()}>Try again</button></p>}
      <div className={css.bar2}>
        <label>At least <select value={level} onChange={(event) => onFilter({ level: event.target.value === ALL ? undefined : event.target.value })}>{LEVELS.map((one) => <option key={one}>{one}</option>)}</select></label>
        {(places.size > 0 || step) && <label>Of <select aria-label="Of which step" className={own.steps} value={step ?? ""} onChange={(event) => onFilter({ logstep: event.target.value || undefined })}><option value="">all</option>{narrowings(places.keys(), step).map((one) => <option key={one}>{one}</option>)}</select></label>}
        <input className={parts.input} style={{ width: 240 }} placeholder="with these letters" aria-label="Lines with these letters" value={text} onChange={(event) => type(event.target.value)} />
        <label className={parts.check}><input type="checkbox" checked={follow} onChange={(event) => setFollow(event.target.checked)} /> follow</label>
        <button type="button" className={parts.button} onClick={() => download(`${id}.log`, written(lines, plain), "text/plain")}>Download the lines shown</button>
        <span className={parts.muted}>{lines.length.toLocaleString("en")} {lines.length === 1 ? "line" : "lines"}{logs.data && !logs.data.isAll ? ", and more" : ""}</span>
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
                  <span>{line.step && <Link className={own.step} to={`/runs/${id}` as string} search={((before: object) => ({ ...before, tab: undefined, step: places.get(line.step!) ?? line.step, attempt: undefined })) as never}>{line.step}</Link>}{plain(line.message)}</span>
                </div>
              );
            })}
          </div>
        </div>
      ) : <div className={`${parts.card} ${parts.empty}`}>No line {text || step || level !== ALL ? "fits" : "was logged"}.</div>}
    </>
  );
}
