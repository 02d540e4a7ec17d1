// What helps, by the reason that the server gives: without asking anybody, so that it can be tested.
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Run } from "../lib/state";
import { dueOf } from "./acts";

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

/// What helps one that waits for what others do, or for a time beside that.
function awaited(explained: Explained, run: string): ReactNode {
  const { waits = [] } = explained;
  const children = waits.flatMap((wait) => wait.run ?? []);
  if (children.length) return <>See {runLinks(children)}</>;
  const wait = waits.find((one) => one.on === "event" || one.on === "promise");
  if (wait) return given(wait.on as "event" | "promise", wait.name, run);
  const [first] = dueOf(explained);
  if (first) return remedy({ ...explained, kind: first === "again" ? "retry" : "sleeping" }, { id: run });
  return waits.some((one) => one.on === "stop") ? "“Cancel” asks it to stop, which is what it waits for." : "It goes on by itself as soon as that comes.";
}

/// The queue of a run, where somebody can do something about it.
function queueLink(queue: string | undefined): ReactNode {
  return queue === undefined ? <Link to={"/queues" as string}>its queue</Link> : <>queue <Link to={"/queues/$name" as string} params={{ name: queue } as never}>{queue}</Link></>;
}

/// Every reason has something that helps, if only to know that nobody has to do anything.
export function remedy(explained: Explained, run: Pick<Run, "id"> & Partial<Pick<Run, "status">>): ReactNode {
  const { queue, unserved, code, head, by = [] } = explained;
  const before = by.length > 0 && <> Before it: {runLinks(by)}</>;
  // Also while a node works on that.
  const kind = explained.kind === "held" && run.status === "undoing" ? "undoing" : explained.kind;
  switch (kind) {
    case "waiting":
      return awaited(explained, run.id);
    case "sleeping":
      return <>“Skip timer” has it go on at once, as <code>outlast due {run.id}</code> does.</>;
    case "retry":
      return <>“Retry now” has it tried at once, as <code>outlast due {run.id}</code> does.</>;
    case "later":
      return <>“Run now” has it begin at once, as <code>outlast due {run.id}</code> does.</>;
    case "after_crash":
      return <>Look first at what the programs of its <Link to={"/nodes" as string}>nodes</Link> said before they died. “Run now” has it begin at once, as <code>outlast due {run.id}</code> does.</>;
    case "held":
      return "Nobody has to do anything: if it takes longer than it should, “Cancel” asks it to stop.";
    case "due":
      return <>If that takes long, start another node, or give those that are up more slots: <Link to={"/nodes" as string}>nodes</Link> shows how many are used.</>;
    case "undoing":
      return "It goes on by itself. “Kill” ends it at once, and leaves what is not reverted yet as it is.";
    case "rate_spent":
      return <>It goes on when the rate of {queueLink(queue)} allows more; “Limits” there raises it.</>;
    case "no_node":
      return <>Start your program, or <code>outlast dev</code>; <Link to={"/nodes" as string}>nodes</Link> shows what is up.</>;
    case "no_code":
      return <>Start a node that registers <code>{code}</code>, or fork the run to a version that is there.</>;
    case "not_served":
      return served(queue ?? "");
    case "queue_paused":
    case "queue_draining":
      return <>“Resume” has {queueLink(queue)} go on.</>;
    case "queue_full":
      return <>It goes on when one of them ends; “Limits” of {queueLink(queue)} lets more run at once.{before}</>;
    case "group_full":
      return <>It goes on when one of them ends; “Limits” of {queueLink(queue)} lets more of one group run at once.{before}</>;
    case "nodes_full":
      return <>It goes on when one of them ends, or another node starts; “Limits” of {queueLink(queue)} lets more run on one node.{before}</>;
    case "behind_in_order":
      return head ? <>First {runLink(head)}</> : "It goes on when that has ended.";
    case "blocked":
      return unserved ? served(unserved) : <>Deploy code that fits what it recorded, which its <Link to={`/runs/${run.id}` as string} search={{ tab: "history" } as never}>history</Link> shows, or fork it from a step to the newest version.</>;
    case "undo_failed":
      return "Mend the cause and retry, skip the undo, or kill it and clean up by hand.";
    case "paused":
      return "Resume it.";
    case "node_lost":
      return "Another node takes it over as soon as one is up.";
    case "no_wake":
      return <>Run <code>outlast verify</code>, and cancel it if nothing else helps. ({run.id})</>;
    case "ended":
      return "“Rerun” starts it anew.";
    default:
      return null;
  }
}
