// Why a run is not progressing, and what to do about it. The server knows the reason; here it gets a remedy.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { api, data } from "../api/client";
import type { Run } from "../lib/state";
import { duration, millis, readable } from "../lib/time";
import { Note, useNow } from "../parts/parts";

export interface Wait {
  on: string;
  name?: string;
  run?: string;
  since?: string;
  until?: string;
}

export interface Explained {
  kind: string;
  text: string;
  now: string;
  waits?: Wait[];
  queue?: string;
  code?: string;
  head?: string;
  by?: string[];
  until?: string;
  at?: string;
  asked_to_stop?: string;
}

export function useExplained(id: string, enabled: boolean) {
  return useQuery({
    queryKey: ["run", id, "explain"],
    queryFn: async ({ signal }) => (await data(api.GET("/api/v1/runs/{id}/explain", { params: { path: { id } }, signal }))) as unknown as Explained,
    enabled,
    placeholderData: undefined,
  });
}

const BAD = ["node_lost", "blocked", "undo_failed", "no_wake", "no_node", "no_code", "not_served"];
const HELD_BACK = ["paused", "queue_paused", "queue_draining", "behind_in_order", "queue_full", "group_full", "rate_spent", "nodes_full", "retry", "after_crash"];

export function Explain({ explained, run }: { explained: Explained; run: Run }) {
  const now = useNow();
  const tone = BAD.includes(explained.kind) ? "red" : HELD_BACK.includes(explained.kind) ? "amber" : "blue";
  const next = millis(explained.at ?? explained.until);
  return (
    <div role="status">
      <Note tone={tone}>
        <strong>{explained.kind === "held" ? "Running" : "Why is it not running?"}</strong>
        <span>{readable(explained.text, now)}</span>
        {next !== null && next > now && explained.kind !== "held" && <span>({duration(next - now)} left)</span>}
        {explained.asked_to_stop && <span>It was asked to stop: {explained.asked_to_stop}</span>}
        <span>{remedy(explained, run)}</span>
      </Note>
    </div>
  );
}

function runLink(id: string) {
  return <Link key={id} to={`/runs/${id}` as string}>…{id.slice(-8)} </Link>;
}

function remedy({ kind, queue, code, head, by, waits }: Explained, run: Run): ReactNode {
  const children = waits?.filter((wait) => wait.run).map((wait) => runLink(wait.run!));
  switch (kind) {
    case "waiting":
      return children?.length ? <>See {children}</> : waits?.some((wait) => wait.on === "event") ? "Send the event, if it will not come by itself." : null;
    case "no_node":
      return <>Start your program, or <code>outlast dev</code>; <Link to={"/nodes" as string}>nodes</Link> shows what is up.</>;
    case "no_code":
      return <>Start a node that registers <code>{code}</code>, or fork the run to a version that is there.</>;
    case "not_served":
      return <>Have a node take from queue <code>{queue}</code>.</>;
    case "queue_paused":
    case "queue_draining":
      return <>Resume it on <Link to={"/queues" as string}>queues</Link>.</>;
    case "queue_full":
    case "group_full":
    case "nodes_full":
      return <>Before it: {(by ?? []).slice(0, 5).map(runLink)}</>;
    case "behind_in_order":
      return head ? <>First {runLink(head)}</> : null;
    case "blocked":
      return "Deploy code that fits what it recorded, or fork it from a step to the newest version.";
    case "undo_failed":
      return "Mend the cause and retry, or kill it and clean up by hand.";
    case "paused":
      return "Resume it.";
    case "node_lost":
      return "Another node takes it over as soon as one is up.";
    case "no_wake":
      return <>Run <code>outlast verify</code>, and cancel it if nothing else helps. ({run.id})</>;
    default:
      return null;
  }
}
