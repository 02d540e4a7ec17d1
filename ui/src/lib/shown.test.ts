import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ApiError } from "../api/client";
import { type Shown, shownNext } from "./shown";

vi.hoisted(() => {
  vi.stubGlobal("location", { href: "http://here/", hash: "" });
  vi.stubGlobal("document", { getElementById: () => null });
});
beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

const away = new ApiError(0, "unreachable", "The server cannot be reached.");

/// What a page shows, one after the other, while it asks again and again; `answer` is what the server does at first.
async function page(answer: () => Promise<string[]>) {
  const client = new QueryClient({ defaultOptions: { queries: { retry: 1, retryDelay: 10, placeholderData: (before: unknown) => before } } });
  const server = { answer };
  const seen: string[] = [];
  let last: Shown<string[]> | undefined;
  const options = (range: string) => ({ queryKey: [range], queryFn: () => server.answer() });
  const observer = new QueryObserver(client, options("1h"));
  observer.subscribe((now) => {
    last = shownNext(last, now);
    const said = last.isPending ? "loading" : [last.data?.join(""), (last.error as Error | null)?.message].filter(Boolean).join(": ");
    if (seen.at(-1) !== said) seen.push(said);
  });
  await vi.advanceTimersByTimeAsync(100);
  /// Several times, as a page does by itself.
  const again = async () => {
    for (let times = 0; times < 4; times++) {
      void observer.refetch();
      await vi.advanceTimersByTimeAsync(100);
    }
  };
  return { server, seen, again, ask: (range: string) => observer.setOptions(client.defaultQueryOptions(options(range))) };
}

const refused = (error: Error) => () => Promise.reject(error);

it("stays as it was while the server is away, with the word that it is, whatever is asked for meanwhile", async () => {
  const { server, seen, again, ask } = await page(async () => ["a"]);
  server.answer = refused(away);
  ask("6h");
  await again();
  expect(seen).toEqual(["loading", "a", `a: ${away.message}`]);
  server.answer = async () => ["b"];
  await again();
  expect(seen.slice(3)).toEqual(["b"]);
});

it("says that the server is away, and not that something loads, where it was away from the beginning", async () => {
  const { seen, again } = await page(refused(away));
  await again();
  expect(seen).toEqual(["loading", away.message]);
});

it("shows nothing of what was there before where the server answers that it may not, or cannot", async () => {
  const { server, seen, ask } = await page(async () => ["a"]);
  server.answer = refused(new ApiError(403, "forbidden", "not you"));
  ask("6h");
  await vi.advanceTimersByTimeAsync(100);
  expect(seen).toEqual(["loading", "a", "not you"]);
});
