import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { describe, expect, it, vi } from "vitest";
import { askAgain } from "./again";

/// A query whose answers come when the test says so.
function slow() {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const queryKey = ["run", "1", "steps"];
  let [come, fail]: [(all: string) => void, (error: Error) => void] = [() => {}, () => {}];
  const queryFn = vi.fn(({ signal }: { signal: AbortSignal }) => new Promise<string>((done, not) => ([come, fail] = [done, not], signal.addEventListener("abort", not))));
  const seen = new QueryObserver(client, { queryKey, queryFn });
  const stop = seen.subscribe(() => {});
  /// Until what was answered has been noticed.
  const noticed = () => vi.waitFor(() => expect(client.isFetching()).toBe(0));
  return { client, queryKey, queryFn, seen, stop, come: (all: string) => come(all), fail: () => fail(new Error("away")), noticed };
}

describe("what changes while it is on its way", () => {
  it("arrives, however often it changes, and is asked for once more", async () => {
    const { client, queryKey, queryFn, seen, stop, come, noticed } = slow();
    client.setQueryData(queryKey, "both ends");
    for (let change = 0; change < 5; change++) askAgain(client, ["run", "1"]);
    expect(queryFn).toHaveBeenCalledTimes(1);
    come("all");
    await vi.waitFor(() => expect(queryFn).toHaveBeenCalledTimes(2));
    expect(seen.getCurrentResult().data).toBe("all");
    come("all, and what came");
    await noticed();
    expect(queryFn).toHaveBeenCalledTimes(2);
    expect(seen.getCurrentResult().data).toBe("all, and what came");
    stop();
  });
  it("is asked for once more when it could not be had", async () => {
    const { client, queryFn, stop, fail, come, noticed } = slow();
    askAgain(client);
    fail();
    await vi.waitFor(() => expect(queryFn).toHaveBeenCalledTimes(2));
    come("all");
    await noticed();
    stop();
  });
  it("is left alone when nothing of it changed", async () => {
    const { client, queryFn, stop, come, noticed } = slow();
    askAgain(client, ["run", "2"]);
    come("all");
    await noticed();
    expect(queryFn).toHaveBeenCalledTimes(1);
    stop();
  });
});
