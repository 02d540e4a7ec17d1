// Keys that work everywhere, but not while somebody types or a dialog is open.
import { useLayoutEffect, useRef } from "react";

const TOGETHER = 900;

/// The key that jumps, as it is called on the machine before whoever looks.
export const JUMP = /Mac|iPhone|iPad/.test(globalThis.navigator?.platform ?? "") ? "⌘ K" : "Ctrl K";

/// Calls back with `?`, `mod+k` or `g r`. Gives back whether it was for somebody.
export function useKeys(handle: (keys: string) => boolean) {
  const latest = useRef(handle);
  latest.current = handle;
  // As soon as it is in the document: whoever sees a page may press its keys.
  useLayoutEffect(() => {
    let before = "";
    let since = 0;
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const typing = target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
      const mod = event.ctrlKey || event.metaKey;
      if (event.key === "Escape" && typing && !target.closest("dialog")) target.blur();
      if (event.defaultPrevented || event.altKey || document.querySelector("dialog[open]")) return;
      if (mod ? event.key.toLowerCase() !== "k" : typing) return;
      const key = mod ? `mod+${event.key.toLowerCase()}` : event.key;
      const pair = before && event.timeStamp - since < TOGETHER ? `${before} ${key}` : key;
      [before, since] = [key, event.timeStamp];
      if (latest.current(pair) || (pair !== key && latest.current(key))) {
        before = "";
        event.preventDefault();
      }
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}
