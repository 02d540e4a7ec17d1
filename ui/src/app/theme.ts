// Light, dark, or as the system says. Kept in this browser.
import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";
export const ORDER: Theme[] = ["system", "light", "dark"];
const listeners = new Set<() => void>();

function stored(): Theme {
  try {
    return ORDER.find((theme) => theme === localStorage.getItem("outlast.theme")) ?? "system";
  } catch {
    return "system";
  }
}

let theme = stored();

export function applyTheme() {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function nextTheme() {
  setTheme(ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length]!);
}

export function setTheme(chosen: Theme) {
  theme = chosen;
  try {
    localStorage.setItem("outlast.theme", theme);
  } catch {
    // It lasts until the page is left.
  }
  applyTheme();
  listeners.forEach((call) => call());
}

export function useTheme(): Theme {
  return useSyncExternalStore((call) => (listeners.add(call), () => listeners.delete(call)), () => theme);
}
