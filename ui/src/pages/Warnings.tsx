// What somebody should look at, on the first page: only what is wrong, each with where to go.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { api, ApiError, data } from "../api/client";
import { useMay } from "../app/Shell";
import { backlog } from "../lib/backlog";
import { useReach } from "../lib/me";
import { many, stopped } from "../lib/stopped";
import { duration, skewNow } from "../lib/time";
import { Notices } from "../parts/Notices";
import { css, Icon, Note } from "../parts/parts";
import { serving, Unserved } from "./Queues";
import { isLate } from "./Schedules";
import page from "./overview.module.css";

const EVERY = 10_000;
const LOOK_EVERY = 5 * 60_000;
const FOUND_WITHIN = "10m";

interface Warning {
  key: string;
  tone: "red" | "amber";
  text: ReactNode;
}

function useWarnings(): Warning[] {
  const reach = useReach();
  const queues = useQuery({ queryKey: ["queues"], queryFn: () => data(api.GET("/api/v1/queues")), enabled: reach("queues") === true }).data?.items ?? [];
  const schedules = useQuery({ queryKey: ["schedules"], queryFn: () => data(api.GET("/api/v1/schedules")), enabled: reach("schedules") === true, refetchInterval: EVERY });
  const nodes = useQuery({ queryKey: ["nodes"], queryFn: () => data(api.GET("/api/v1/nodes")), enabled: reach("nodes") === true, refetchInterval: EVERY, retry: false });
  const ready = useQuery({ queryKey: ["ready"], queryFn: () => data(api.GET("/readyz")), refetchInterval: EVERY, retry: false });
  const system = useQuery({ queryKey: ["system"], queryFn: () => data(api.GET("/api/v1/system")), enabled: reach("system") === true, refetchInterval: EVERY, retry: false });
  // To look is much to ask of the database: what the server found for anybody in the last minutes is good enough.
  const may = useMay("operate") && reach("system") === true;
  const checks = useQuery({ queryKey: ["system", "checks"], queryFn: () => data(api.GET("/api/v1/system/checks", { params: { query: { max_age: FOUND_WITHIN } } })), enabled: may, staleTime: LOOK_EVERY, refetchInterval: LOOK_EVERY, retry: false });
  const behind = backlog(system.data?.next_purge_at, system.dataUpdatedAt);
  const late = (schedules.data?.items ?? []).filter((one) => isLate(one, schedules.dataUpdatedAt));
  const still = useQuery(stopped()).data;
  const held = queues.filter((queue) => queue.state !== "open" && queue.due > 0);
  const found: Warning[] = [];
  const say = (key: string, tone: Warning["tone"], text: ReactNode) => void found.push({ key, tone, text });
  if (ready.error instanceof ApiError && ready.error.status === 503) say("ready", "red", <>The server is not ready: {ready.error.message} <Link to={"/system" as string}>System</Link></>);
  // How queues and runs are is looked at anew here: what was found minutes ago may be mended.
  for (const check of (checks.data?.items ?? []).filter((one) => one.status !== "ok" && !["queues", "runs"].includes(one.name))) {
    say(`check ${check.name}`, check.status === "fail" ? "red" : "amber", <>{check.name}: {check.detail} <Link to={"/system" as string}>System</Link></>);
  }
  if (behind !== null) say("retention", "amber", <>Ended runs stay for longer than they should: the first should have been deleted {duration(behind)} ago. <Link to={"/system" as string}>System</Link></>);
  if (nodes.data && !nodes.data.items.length) say("nodes", "red", <>No node is up: nothing runs until one is. <Link to={"/nodes" as string}>Nodes</Link></>);
  for (const queue of held) say(`queue ${queue.name}`, "amber", <>Queue <Link to={"/queues/$name" as string} params={{ name: queue.name } as never}>{queue.name}</Link> is {queue.state}, and {queue.due === 1 ? "1 run is" : `${queue.due.toLocaleString("en")} runs are`} due in it.</>);
  if (nodes.data?.items.length) {
    for (const queue of queues.filter((one) => one.state === "open" && one.due > 0 && !serving(one.name, nodes.data.items) && !still?.unserved.has(one.name))) {
      say(`unserved ${queue.name}`, "red", <>No node takes from queue <Link to={"/queues/$name" as string} params={{ name: queue.name } as never}>{queue.name}</Link>, and {queue.due === 1 ? "1 run is" : `${queue.due.toLocaleString("en")} runs are`} due in it.</>);
    }
  }
  for (const [queue, count] of still?.unserved ?? []) say(`blocked ${queue}`, "red", <Unserved queue={queue} count={count} />);
  if (still?.blocked) say("blocked", "amber", <>{many(still.blocked)} cannot go on with the code that is there. <Link to={"/runs" as string} search={{ status: "blocked" } as never}>Blocked runs</Link></>);
  if (still?.undoFailed) say("undo failed", "amber", <>Not all that {many(still.undoFailed)} did could be reverted. <Link to={"/runs" as string} search={{ status: "undo_failed" } as never}>Half undone runs</Link></>);
  for (const one of late) say(`schedule ${one.name}`, "amber", <>Schedule <Link to={"/schedules/$name" as string} params={{ name: one.name } as never}>{one.name}</Link> is late.</>);
  if (skewNow()) say("clock", "amber", <>This machine's clock is {Math.round(Math.abs(skewNow()) / 1000)} s {skewNow() > 0 ? "behind" : "ahead of"} the server's: times are shown by the server's.</>);
  return found;
}

const PLACE = "warnings";

/// How many there are, at the head of the page: they stand at its end, where nothing moves when one comes or goes.
export function WarningCount() {
  const found = useWarnings();
  if (!found.length) return null;
  const tone = found.some((one) => one.tone === "red") ? css.red : css.amber;
  return (
    <button type="button" className={`${css.chip} ${tone} ${page.count}`} onClick={() => document.getElementById(PLACE)?.scrollIntoView({ block: "center" })}>
      <Icon path="M8 2 1.5 13.5h13zM8 6.5v3M8 11.5h.01" />{found.length === 1 ? "1 warning" : `${found.length} warnings`}
    </button>
  );
}

export function Warnings() {
  const items = useWarnings().map(({ key, tone, text }) => ({ key, note: <Note tone={tone}><span>{text}</span></Note> }));
  return <Notices items={items} label="Warnings" id={PLACE} className={page.warnings} />;
}
