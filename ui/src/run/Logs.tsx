// What a run's handlers logged. Follows the end unless somebody has scrolled away.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { api, data } from "../api/client";
import { absolute, clock, millis, serverNow } from "../lib/time";
import { css as parts, download, Loading, plain, Problem } from "../parts/parts";
import css from "./run.module.css";

const LEVELS = ["error", "warn", "info", "debug", "trace"] as const;
const TONES: Record<string, string | undefined> = { error: parts.red, warn: parts.amber, info: parts.blue };

export function LogsTab({ id }: { id: string }) {
  const [level, setLevel] = useState<string>("trace");
  const [text, setText] = useState("");
  const [follow, setFollow] = useState(true);
  const box = useRef<HTMLDivElement>(null);
  const logs = useQuery({
    queryKey: ["run", id, "logs", level],
    queryFn: ({ signal }) => data(api.GET("/api/v1/runs/{id}/logs", { params: { path: { id }, query: { level, limit: 1000 } }, signal })),
  });
  const lines = (logs.data?.items ?? []).filter((line) => line.message.toLowerCase().includes(text.toLowerCase()));
  useEffect(() => {
    if (follow) box.current?.scrollTo({ top: box.current.scrollHeight });
  }, [follow, lines.length]);
  if (logs.isPending) return <Loading />;
  const now = serverNow();
  return (
    <>
      <Problem error={logs.error} />
      <div className={css.bar2}>
        <label>At least <select value={level} onChange={(event) => setLevel(event.target.value)}>{LEVELS.map((one) => <option key={one}>{one}</option>)}</select></label>
        <input className={parts.input} style={{ width: 240 }} placeholder="with these letters" aria-label="Lines with these letters" value={text} onChange={(event) => setText(event.target.value)} />
        <label className={parts.check}><input type="checkbox" checked={follow} onChange={(event) => setFollow(event.target.checked)} /> follow</label>
        <button type="button" className={parts.button} onClick={() => download(`${id}.log`, lines.map((line) => `${line.at} ${line.level} ${plain(line.message)}\n`).join(""))}>Download</button>
      </div>
      {lines.length ? (
        <div className={css.logs} ref={box} tabIndex={0} role="log" aria-label="Log">
          {lines.map((line, place) => (
            <div className={css.log} key={place}>
              <span className={parts.muted} title={absolute(millis(line.at) ?? now)}>{clock(millis(line.at) ?? now, now)}</span>
              <span><span className={`${parts.chip} ${TONES[line.level] ?? parts.grey}`}>{line.level}</span></span>
              <span>{plain(line.message)}</span>
            </div>
          ))}
        </div>
      ) : <div className={`${parts.card} ${parts.empty}`}>No line {text || level !== "trace" ? "fits" : "was logged"}.</div>}
    </>
  );
}
