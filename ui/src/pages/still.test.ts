import { QueryClient, QueryObserver, type QueryObserverOptions } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { askAgain } from "../app/again";

let asked: string[] = [];

beforeEach(() => {
  asked = [];
  vi.stubGlobal("location", { href: "http://here/", hash: "" });
  vi.stubGlobal("document", { addEventListener: () => {}, getElementById: () => null, hidden: false });
  vi.stubGlobal("innerWidth", 1280);
  vi.stubGlobal("fetch", async (request: Request) => {
    asked.push(new URL(request.url).pathname);
    return Response.json({ items: [], nth: asked.length }, { headers: { etag: `"${asked.length}"` } });
  });
});
afterEach(() => vi.unstubAllGlobals());

/// What somebody has before them while they decide, or asked for once because it is dear.
const STILL: [string, () => Promise<unknown>][] = [
  ["a schedule that somebody edits", async () => (await import("./ScheduleEdit")).editOf("nightly")],
  ["the input of the last run, which somebody is about to send again", async () => (await import("./Definitions")).lastOf("order")],
  ["the form of what somebody is about to start", async () => (await import("./Definitions")).cardsOf("order")],
  ["what doctor says", async () => (await import("./System")).CHECKS],
  ["how much room tables take", async () => (await import("./System")).TABLES],
];

it.each(STILL)("%s stays as it was, whatever comes live and also where no stream does", async (_, options) => {
  const client = new QueryClient();
  const seen = new QueryObserver(client, (await options()) as QueryObserverOptions);
  const stop = seen.subscribe(() => {});
  await vi.waitFor(() => expect(seen.getCurrentResult().data).toBeDefined());
  const before = seen.getCurrentResult().data;
  // What a stream tells of, what is asked every few seconds without one, and what follows a break.
  askAgain(client, ["schedules"]);
  askAgain(client, ["runs"]);
  askAgain(client, ["definitions"]);
  askAgain(client);
  await client.invalidateQueries();
  expect(asked).toHaveLength(1);
  expect(seen.getCurrentResult().data).toBe(before);
  // Who wants to know it anew is told.
  await seen.refetch();
  expect(asked).toHaveLength(2);
  stop();
});
