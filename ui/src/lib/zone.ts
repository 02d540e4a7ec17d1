// In which zone times are shown: that of whoever looks, or UTC. Kept in this browser.
import { useSyncExternalStore } from "react";

const listeners = new Set<() => void>();
let utc = false;
try {
  utc = localStorage.getItem("outlast.zone") === "utc";
} catch {
  // It is this machine's until the page is left.
}

export function toggleUtc() {
  setUtc(!utc);
}

export function setUtc(wanted: boolean) {
  utc = wanted;
  try {
    localStorage.setItem("outlast.zone", utc ? "utc" : "here");
  } catch {
    // It lasts until the page is left.
  }
  listeners.forEach((call) => call());
}

export function useUtc(): boolean {
  return useSyncExternalStore((call) => (listeners.add(call), () => listeners.delete(call)), () => utc);
}
