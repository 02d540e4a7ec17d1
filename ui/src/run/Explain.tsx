// Why a run is not progressing, and what to do about it. The server knows the reason; here it gets a remedy.
import { useQuery } from "@tanstack/react-query";
import { api, data } from "../api/client";
import type { Run } from "../lib/state";
import { EVERY } from "../lib/sums";
import { duration, millis, readable } from "../lib/time";
import { useUtc } from "../lib/zone";
import { Ask } from "../parts/Ask";
import { Copy, css, Note, Time, useNow } from "../parts/parts";
import { pauseOf } from "./acts";
import { askedOf } from "./History";
import { crowd, type Explained, reason, remedy, serves } from "./remedy";
import own from "./run.module.css";

export function useExplained(id: string, enabled: boolean) {
  return useQuery({
    queryKey: ["run", id, "explain"],
    queryFn: async ({ signal }) => (await data(api.GET("/api/v1/runs/{id}/explain", { params: { path: { id } }, signal }))) as unknown as Explained,
    enabled,
    // Mostly it is no change of the run: a queue is held, a node dies, a rate is used up, another run leaves its slot. No stream tells of that.
    refetchInterval: EVERY,
    placeholderData: undefined,
  });
}

const BAD = ["node_lost", "undo_failed", "no_wake", "no_node"];
/// What needs somebody is not lost: it has the colour of its state.
const HELD_BACK = ["blocked", "no_code", "not_served", "paused", "queue_paused", "queue_draining", "behind_in_order", "queue_full", "group_full", "rate_spent", "nodes_full", "retry", "after_crash"];

export function Explain({ explained, run }: { explained: Explained; run: Run }) {
  const now = useNow();
  const utc = useUtc();
  const tone = BAD.includes(explained.kind) ? "red" : HELD_BACK.includes(explained.kind) ? "amber" : "blue";
  const next = millis(explained.at ?? explained.until);
  const help = remedy(explained, run);
  const isPaused = explained.kind === "paused";
  const actions = useQuery({ ...askedOf(run.id), enabled: isPaused, retry: false });
  const pause = isPaused ? pauseOf(run, actions.data?.items ?? []) : undefined;
  return (
    // It counts seconds: whoever listens is not told each of them.
    <div role="status" aria-live="off">
      <Note tone={tone}>
        <strong>{explained.kind !== "held" ? "Why is it not running?" : run.status === "undoing" ? "Undoing" : "Running"}</strong>
        <span>{pause ? <>Paused by <b>{pause.actor}</b> <Time at={pause.at} />{pause.reason ? `: ${pause.reason}` : "."}</> : said(explained, now, utc)}</span>
        {next !== null && next > now && explained.kind !== "held" && <span>({duration(next - now)} left)</span>}
        {explained.asked_to_stop && <span>It was asked to stop: {explained.asked_to_stop}</span>}
        {help && <span className={own.help}>{help}</span>}
      </Note>
    </div>
  );
}

/// Why, in the words of whoever looks.
function said(explained: Explained, now: number, utc: boolean): string {
  return crowd(explained) ?? reason(readable(explained.text, now, utc));
}

/// The same at length, for whoever asks: with what the run itself says, and what can be copied.
export function ExplainDialog({ explained, run, onClose }: { explained: Explained | undefined; run: Run; onClose: () => void }) {
  const now = useNow();
  const utc = useUtc();
  const queue = explained?.unserved ?? (explained?.kind === "not_served" ? explained.queue : undefined);
  return (
    <Ask title={explained?.kind === "held" ? "It is running" : "Why is it not running?"} action="Close" isNote onDo={async () => {}} onClose={onClose}>
      {explained && <p>{said(explained, now, utc)}</p>}
      {run.reason && !explained?.text.includes(run.reason) && <p className={css.mono}>{run.reason}</p>}
      {explained?.asked_to_stop && <p>It was asked to stop: {explained.asked_to_stop}</p>}
      {explained && <p>{remedy(explained, run)}</p>}
      {queue !== undefined && <p><Copy text={serves(queue)} label="copy the setting" /></p>}
      <p className={css.muted}><code>outlast explain {run.id}</code> says the same.</p>
    </Ask>
  );
}
