import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Live } from "./live";

/// Streams that were asked for, each with what it wants to hear and how to say something in it.
let streams: { topics: string[]; isClosed: () => boolean; say: (text: string) => void }[] = [];

beforeEach(() => {
  streams = [];
  vi.stubGlobal("location", { href: "http://here/" });
  vi.stubGlobal("document", { addEventListener: () => {}, getElementById: () => null, hidden: false });
  vi.stubGlobal("fetch", async (url: URL, { signal }: { signal: AbortSignal }) => {
    let say: (text: string) => void = () => {};
    const body = new ReadableStream({ start: (control) => ((say = (text) => control.enqueue(new TextEncoder().encode(text))), signal.addEventListener("abort", () => control.error(signal.reason))) });
    streams.push({ topics: (url.searchParams.get("topics") ?? "").split(","), isClosed: () => signal.aborted, say });
    return new Response(body);
  });
});
afterEach(() => vi.unstubAllGlobals());

/// A page that shows run 1, and how often it asked for it.
function shown(client: QueryClient) {
  const asked = vi.fn(async () => "run 1");
  new QueryObserver(client, { queryKey: ["run", "1"], queryFn: asked }).subscribe(() => {});
  return asked;
}

it("asks again for what a stream tells of, and for nothing else", async () => {
  const [client, live] = [new QueryClient(), new Live()];
  live.start(client);
  live.want(["run:1"]);
  await vi.waitFor(() => expect(streams.at(-1)?.topics).toEqual(["run:1"]));
  const asked = shown(client);
  // Once by itself, and once because it may have changed before anybody listened.
  await vi.waitFor(() => expect(asked).toHaveBeenCalledTimes(2));
  streams.at(-1)!.say('id: a:1\nevent: run\ndata: {"id":"2"}\n\n');
  streams.at(-1)!.say('id: a:2\nevent: run\ndata: {"id":"1"}\n\n');
  await vi.waitFor(() => expect(asked).toHaveBeenCalledTimes(3));
});

it("gives up a stream that says nothing any more, says so, and asks for another", async () => {
  vi.useFakeTimers();
  try {
    const live = new Live();
    live.start(new QueryClient());
    await vi.advanceTimersByTimeAsync(100);
    expect(live.state).toBe("live");
    const [first] = streams;
    // What comes every 15 s keeps it.
    for (let ping = 0; ping < 4; ping++) {
      first!.say(": ping\n\n");
      await vi.advanceTimersByTimeAsync(15_000);
    }
    expect(live.state).toBe("live");
    await vi.advanceTimersByTimeAsync(20_000);
    expect([live.state, first!.isClosed()]).toEqual(["reconnecting", true]);
    await vi.advanceTimersByTimeAsync(2000);
    expect([live.state, streams.length]).toEqual(["live", 2]);
  } finally {
    vi.useRealTimers();
  }
});

it("warns of a stream that was lost, and of none that was never there", async () => {
  vi.useFakeTimers();
  try {
    const live = new Live();
    expect(live.state).toBe("connecting");
    vi.stubGlobal("fetch", async () => Promise.reject(new Error("away")));
    live.start(new QueryClient());
    await vi.advanceTimersByTimeAsync(100);
    expect(live.state).toBe("reconnecting");
  } finally {
    vi.useRealTimers();
  }
});

it("opens no stream while nobody looks, also where another was to come", async () => {
  vi.useFakeTimers();
  const page = { hidden: false, addEventListener: (_: string, call: () => void) => (page.look = call), getElementById: () => null, look: () => {} };
  vi.stubGlobal("document", page);
  try {
    const live = new Live();
    live.start(new QueryClient());
    await vi.advanceTimersByTimeAsync(100);
    page.hidden = true;
    page.look();
    await vi.advanceTimersByTimeAsync(31_000);
    expect(streams.every((one) => one.isClosed())).toBe(true);
    const before = streams.length;
    live.want(["run:1"]);
    await vi.advanceTimersByTimeAsync(600_000);
    expect(streams.length).toBe(before);
    page.hidden = false;
    page.look();
    await vi.advanceTimersByTimeAsync(100);
    expect([live.state, streams.at(-1)!.topics, streams.at(-1)!.isClosed()]).toEqual(["live", ["run:1"], false]);
  } finally {
    vi.useRealTimers();
  }
});

it("misses nothing between a stream and the next, which hears of more", async () => {
  const [client, live] = [new QueryClient(), new Live()];
  live.start(client);
  live.want(["run:1"]);
  await vi.waitFor(() => expect(streams.at(-1)?.topics).toEqual(["run:1"]));
  const asked = shown(client);
  await vi.waitFor(() => expect(asked).toHaveBeenCalledTimes(2));
  const before = streams.at(-1)!;
  // Whatever happens to run 1 until the server has the next stream, it tells nobody.
  live.want(["run:2"]);
  await vi.waitFor(() => expect(streams.at(-1)!.topics).toEqual(["run:1", "run:2"]));
  expect(before.isClosed()).toBe(true);
  await vi.waitFor(() => expect(asked).toHaveBeenCalledTimes(3));
});
