// The list of runs while somebody looks at it. Rows do not move under their eyes: who has scrolled down, has chosen rows, or has a dialog or a
// menu open, is told how many are new instead.
//
// Meanwhile only the first page is asked for again, for what is new, and those on the screen, for what became of their runs.
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { Schemas } from "../api/client";
import { askAgain } from "../app/again";
import { listWhile, pagesOf, seenPages } from "../lib/list";
import { useShown } from "../lib/shown";
import type { Run } from "../lib/state";
import { renewed, steady } from "../lib/steady";

type Page = Schemas["RunPage"];

/// So far down, in pixels, somebody reads what is there, and does not wait for what comes.
const DOWN = 200;

export function useList(search: Record<string, unknown>, isHeld: boolean) {
  const client = useQueryClient();
  const lengths = useRef<number[]>([]);
  const { isDown, seen } = useScrolled(lengths);
  const isStill = isDown || isHeld;
  const list = listWhile(isStill, search);
  const { queryKey } = list;
  const key = JSON.stringify(queryKey);
  const runs = useInfiniteQuery(list);
  // Those of another list stay on the screen until this one has come, and are none of its rows.
  const all = useShown(runs);
  const pages = all.isOld ? [] : (all.data?.pages ?? []);
  const cursorOf = (page: number) => runs.data!.pageParams[page] as string;
  lengths.current = pages.map((page) => page.items.length);

  // eslint-disable-next-line react-hooks/exhaustive-deps
  const since = useMemo(() => (isStill ? Date.now() : 0), [isStill, key]);
  const first = useQuery({ ...pagesOf(search, [""], since), enabled: isStill }).data?.[0];
  const others = seen.filter((page) => page > 0 && page < pages.length);
  const there = useQuery({ ...pagesOf(search, others.map(cursorOf), since), enabled: isStill && others.length > 0 }).data;
  const again = new Map<number, Page>(first && [[0, first]]);
  there?.forEach((page, nth) => again.set(others[nth]!, page));

  const found = all.data?.pages.flatMap((page) => page.items) ?? [];
  const held = useRef<{ key: string; rows: Run[] }>({ key, rows: [] });
  const isFree = !isStill || all.isOld || held.current.key !== key || !held.current.rows.length;
  const shown = isFree ? { rows: found, newer: 0, goesOn: true } : steady(held.current.rows, renewed(latest(pages, held.current.rows), again));
  held.current = { key: all.isOld ? "" : key, rows: shown.rows };

  // Where more has come behind what was the last page, there is a next one.
  const end = again.get(pages.length - 1);
  const goesFurther = isStill && pages.at(-1)?.next_cursor == null && end?.next_cursor != null;
  useEffect(() => {
    if (goesFurther) client.setQueryData(queryKey, (all) => all && { ...all, pages: [...all.pages.slice(0, -1), end!] });
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [goesFurther, key]);

  // Who is back at the top begins anew with the first page, as it was known last: those below it come when somebody goes there.
  const known = useRef<{ key: string; first?: Page }>({ key });
  if (isStill) known.current = { key, first };
  const renew = () => {
    const { first } = known.current.key === key ? known.current : {};
    if (first) client.setQueryData(queryKey, { pages: [first], pageParams: [""] });
    askAgain(client, queryKey);
  };
  const wasStill = useRef(false);
  useLayoutEffect(() => {
    if (wasStill.current && !isStill) renew();
    wasStill.current = isStill;
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [isStill]);
  const showNew = () => {
    renew();
    held.current = { key, rows: first?.items ?? found };
    document.getElementById("main")?.scrollTo({ top: 0 });
  };
  return { ...shown, runs, error: all.error, isPending: all.isPending, showNew };
}

/// The same pages with runs as they were shown last: of those that have left the screen the list knows only how they were before.
function latest(pages: Page[], shown: Run[]): Run[][] {
  const last = new Map(shown.map((run) => [run.id, run]));
  return pages.map((page) => page.items.map((run) => last.get(run.id) ?? run));
}

/// Whether somebody has scrolled down, and which pages of the list they see.
function useScrolled(lengths: { current: number[] }): { isDown: boolean; seen: number[] } {
  const [isDown, setDown] = useState(false);
  // As a text, which is the same for as long as they are.
  const [seen, setSeen] = useState("0");
  useLayoutEffect(() => {
    const main = document.getElementById("main");
    if (!main) return;
    const look = () => {
      setDown(main.scrollTop > DOWN);
      setSeen(seenPages(main, lengths.current).join());
    };
    main.addEventListener("scroll", look, { passive: true });
    return () => main.removeEventListener("scroll", look);
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  return { isDown, seen: seen.split(",").map(Number) };
}
