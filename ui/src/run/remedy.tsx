// What helps, by the reason that the server gives: without asking anybody, so that it can be tested.
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Run } from "../lib/state";

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
  /// Of one that is blocked: the queue that no node serves, where that is why.
  unserved?: string;
  code?: string;
  head?: string;
  by?: string[];
  until?: string;
  at?: string;
  step?: string;
  asked_to_stop?: string;
}

/// Where the server's sentence goes on with what helps: here that is said once, with links.
const HELP = /(?:;|, and|:) (?:it goes on when|cancel the run|start one|no node is up to free it|`outlast ).*$/s;

/// Why, as a sentence of its own, without what helps.
export function reason(text: string): string {
  const why = text.replace(HELP, "").trim();
  return why && why[0]!.toUpperCase() + why.slice(1) + (/[.!?)]$/.test(why) ? "" : ".");
}

/// So many runs are named; the others are counted.
const FEW = 5;

/// For what a run waits that waits for the ends of many others: nobody reads a list of them.
export function crowd({ waits = [] }: Pick<Explained, "waits">): string | null {
  return waits.length > FEW && waits.every((wait) => wait.on === "child") ? `Waiting for the end of ${waits.length} runs.` : null;
}

/// The first of them, and how many there are beside.
function runLinks(ids: string[]) {
  return <>{ids.slice(0, FEW).map(runLink)}{ids.length > FEW && `and ${ids.length - FEW} more`}</>;
}

function runLink(id: string) {
  return <Link key={id} to={`/runs/${id}` as string}>…{id.slice(-8)} </Link>;
}

/// How a program takes from a queue: what its nodes serve stands in their settings, and on no command line.
export function serves(queue: string): string {
  return `app.settings(|s| s.queues = vec![${JSON.stringify(queue)}.into()])`;
}

function served(queue: string): ReactNode {
  return <>Start your program with <code>{serves(queue)}</code> (it takes from those alone that are named there), or with a definition that is of queue <Link to={"/queues/$name" as string} params={{ name: queue } as never}>{queue}</Link>; or cancel the run, and start it in another queue. <Link to={"/nodes" as string}>Nodes</Link> shows what is up.</>;
}

/// How what a run waits for is given to it on a command line. A name is quoted as shells want it.
export function command(on: "event" | "promise", name: string, run: string): string {
  const word = /^[\w.:/@-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`;
  return `outlast ${on === "event" ? "send" : "settle"} ${run} ${word} --data JSON`;
}

function given(on: "event" | "promise", name: string | undefined, run: string): ReactNode {
  return <>{on === "event" ? "Send the event, if it will not come by itself" : "Settle the promise, if nobody else does"}{name !== undefined && <>: <code>{command(on, name, run)}</code></>}.</>;
}

export function remedy({ kind, queue, unserved, code, head, by, waits }: Explained, run: Pick<Run, "id">): ReactNode {
  const children = waits?.flatMap((wait) => wait.run ?? []);
  const wait = waits?.find((one) => one.on === "event" || one.on === "promise");
  switch (kind) {
    case "waiting":
      return children?.length ? <>See {runLinks(children)}</> : wait ? given(wait.on as "event" | "promise", wait.name, run.id) : null;
    case "retry":
      return <>“Retry now” has it tried at once, as <code>outlast due {run.id}</code> does.</>;
    case "later":
      return <>“Run now” has it begin at once, as <code>outlast due {run.id}</code> does.</>;
    case "rate_spent":
      return queue === undefined ? "It goes on when the rate allows more." : <>It goes on when the rate of queue <Link to={"/queues/$name" as string} params={{ name: queue } as never}>{queue}</Link> allows more; “Limits” there raises it.</>;
    case "no_node":
      return <>Start your program, or <code>outlast dev</code>; <Link to={"/nodes" as string}>nodes</Link> shows what is up.</>;
    case "no_code":
      return <>Start a node that registers <code>{code}</code>, or fork the run to a version that is there.</>;
    case "not_served":
      return served(queue ?? "");
    case "queue_paused":
    case "queue_draining":
      return <>Resume it on <Link to={"/queues" as string}>queues</Link>.</>;
    case "queue_full":
    case "group_full":
    case "nodes_full":
      return <>Before it: {runLinks(by ?? [])}</>;
    case "behind_in_order":
      return head ? <>First {runLink(head)}</> : null;
    case "blocked":
      return unserved ? served(unserved) : "Deploy code that fits what it recorded, or fork it from a step to the newest version.";
    case "undo_failed":
      return "Mend the cause and retry, skip the undo, or kill it and clean up by hand.";
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
