// Live updates: one stream of server-sent events for this tab. Messages say what changed; queries that show it are asked
// again, gathered for 300 ms. It is read with fetch, because an EventSource tells nobody why it was refused.
//
// The stream is closed half a minute after the tab is hidden, and not opened before it is seen: browsers allow six connections
// to one server, and the seventh tab would hang.
import { focusManager, type QueryClient } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";
import { askAgain } from "./again";
import { config } from "./config";

export type LiveState = "connecting" | "live" | "paused" | "reconnecting" | "polling";

const GATHER = 300;
const HIDE_AFTER = 30_000;
const POLL = 5000;
/// The server says something every 15 s. A stream that has said nothing for twice as long and more is dead, though nobody has closed it: its
/// server hangs, or whatever stands between has forgotten it.
const SILENT = 35_000;

export class Live {
  state: LiveState = "connecting";
  private client: QueryClient | null = null;
  private topics = new Map<string, number>();
  private listeners = new Set<() => void>();
  private stop: AbortController | null = null;
  private lastId = "";
  private failures = 0;
  private wantsPause = false;
  private changed = new Set<string>();
  private gathering: ReturnType<typeof setTimeout> | null = null;
  private restarting: ReturnType<typeof setTimeout> | null = null;
  private hiding: ReturnType<typeof setTimeout> | null = null;
  /// Nobody has looked for so long that the stream was closed. Nothing opens one before somebody does, also where another was to come.
  private isAway = false;
  private silence: ReturnType<typeof setTimeout> | undefined;

  start(client: QueryClient) {
    this.client = client;
    // A tab that somebody opens behind this one is never told that it is hidden.
    this.isAway = document.hidden;
    document.addEventListener("visibilitychange", () => {
      if (this.hiding) clearTimeout(this.hiding);
      if (document.hidden) {
        this.hiding = setTimeout(() => {
          this.isAway = true;
          this.close();
        }, HIDE_AFTER);
      } else {
        this.isAway = false;
        if (!this.stop) this.restart(0, true);
      }
    });
    setInterval(() => this.state === "polling" && !document.hidden && askAgain(client), POLL);
    this.restart(0);
  }

  subscribe = (call: () => void) => {
    this.listeners.add(call);
    return () => this.listeners.delete(call);
  };

  toggle() {
    this.wantsPause = !this.wantsPause;
    // What pages ask for every few seconds stands still too, as if nobody looked.
    focusManager.setFocused(this.wantsPause ? false : undefined);
    if (this.wantsPause) {
      if (this.gathering) clearTimeout(this.gathering);
      this.gathering = null;
      this.changed.clear();
      this.close();
      this.set("paused");
    } else this.restart(0, true);
  }

  /// Hears of more, for as long as a page wants it.
  want(topics: string[]): () => void {
    for (const topic of topics) this.topics.set(topic, (this.topics.get(topic) ?? 0) + 1);
    this.restart(50);
    return () => {
      for (const topic of topics) {
        const left = (this.topics.get(topic) ?? 1) - 1;
        if (left) this.topics.set(topic, left);
        else this.topics.delete(topic);
      }
      this.restart(50);
    };
  }

  private set(state: LiveState) {
    if (this.state === state) return;
    this.state = state;
    this.listeners.forEach((call) => call());
  }

  private close() {
    clearTimeout(this.silence);
    this.stop?.abort();
    this.stop = null;
  }

  /// After a break. What was asked for before it may never be answered, and is given up.
  private everything() {
    void this.client?.invalidateQueries();
  }

  private restart(after: number, refetch = false) {
    if (this.restarting) clearTimeout(this.restarting);
    this.restarting = setTimeout(() => {
      this.close();
      if (this.wantsPause || this.isAway || !this.client) return;
      if (refetch) this.everything();
      void this.run();
    }, after);
  }

  private async run() {
    const stop = (this.stop = new AbortController());
    const topics = [...this.topics.keys()];
    this.listen(stop);
    try {
      const url = new URL(`${config.base}api/v1/live`, location.href);
      if (topics.length) url.searchParams.set("topics", topics.join(","));
      const headers: Record<string, string> = { accept: "text/event-stream" };
      if (this.lastId) headers["last-event-id"] = this.lastId;
      const answer = await fetch(url, { headers, signal: stop.signal });
      if (!answer.ok || !answer.body) throw new Error(String(answer.status));
      if (this.failures) this.everything();
      this.failures = 0;
      this.set("live");
      this.catchUp(topics);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) throw new Error("the stream ended");
        this.listen(stop);
        const parts = (rest + value).split("\n\n");
        rest = parts.pop()!;
        parts.forEach((part) => this.hear(part));
      }
    } catch {
      if (!stop.signal.aborted) this.lost();
    }
  }

  /// Gives a stream up that has said nothing for too long from now on.
  private listen(stop: AbortController) {
    if (stop.signal.aborted) return;
    clearTimeout(this.silence);
    this.silence = setTimeout(() => (stop.abort(), this.lost()), SILENT);
  }

  private lost() {
    clearTimeout(this.silence);
    this.failures++;
    this.set(this.failures >= 3 ? "polling" : "reconnecting");
    this.restart(Math.min(10_000, 500 * 2 ** this.failures));
  }

  /// What happened after a page was read and before the server knew that somebody wants to hear of it, nobody tells; nor
  /// what happened after one stream was closed and before the next began, because the server looks at nothing that no
  /// stream wants.
  private catchUp(topics: string[]) {
    for (const topic of topics) this.note(topic.replace(":", " "));
  }

  private note(about: string) {
    this.changed.add(about);
    this.gathering ??= setTimeout(() => this.tell(), GATHER);
  }

  private hear(message: string) {
    const fields = new Map(message.split("\n").map((line) => line.split(/: ?(.*)/s) as [string, string]));
    const id = fields.get("id");
    if (id) this.lastId = id;
    const event = fields.get("event");
    if (!event) return;
    if (event === "reset") return this.everything();
    this.note(event === "run" || event === "logs" ? `${event} ${idOf(fields.get("data"))}` : event);
  }

  private tell() {
    this.gathering = null;
    if (!this.client) return;
    for (const about of this.changed) {
      const [event, id] = about.split(" ");
      if (event === "run") askAgain(this.client, ["run", id]);
      else if (event === "logs") askAgain(this.client, ["run", id, "logs"]);
      else askAgain(this.client, [event]);
      if (event === "runs") askAgain(this.client, ["bulk"]);
    }
    this.changed.clear();
  }
}

function idOf(data: string | undefined): string {
  try {
    return (JSON.parse(data ?? "{}") as { id?: string }).id ?? "";
  } catch {
    return "";
  }
}

export const live = new Live();

export function useLiveState(): LiveState {
  return useSyncExternalStore(live.subscribe, () => live.state);
}

/// Hears of these topics while the page is open.
export function useTopics(...topics: string[]) {
  const key = topics.join(",");
  useEffect(() => (key ? live.want(key.split(",")) : undefined), [key]);
}
