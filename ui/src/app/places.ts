// How far down somebody was on a page: whoever goes back stands where they were, and a page that is opened begins at its top.
// Pages scroll inside of the shell, of which browsers remember nothing by themselves.
import type { AnyRouter } from "@tanstack/react-router";

interface Location {
  href: string;
  state: { __TSR_key?: string };
}

export function keepPlaces(router: AnyRouter) {
  const places = new Map<string, number>();
  const main = () => document.getElementById("main");
  // Each stop of the way has a key of its own, also where the address is the same.
  const keyOf = (location: Location) => location.state.__TSR_key ?? location.href;
  router.subscribe("onBeforeLoad", ({ fromLocation: from }) => {
    if (from) places.set(keyOf(from as Location), main()?.scrollTop ?? 0);
  });
  router.subscribe("onRendered", ({ fromLocation: from, toLocation: to, pathChanged }) => {
    // The first page is at its top, and to scroll there would have the browser lay it out before there is all of it.
    if (!from) return;
    const place = places.get(keyOf(to as Location));
    // A step or a range that was chosen changes the address, and nothing of where one stands.
    if (place !== undefined || pathChanged) main()?.scrollTo({ top: place ?? 0 });
  });
}
