// Small things that every page uses: chips, times, copying, notes.
import { type ReactNode, type RefObject, useEffect, useLayoutEffect, useRef, useState, useSyncExternalStore } from "react";
import { ApiError, wantToken } from "../api/client";
import { STATES, type State } from "../lib/state";
import { absolute, millis, relative, serverNow } from "../lib/time";
import { useUtc } from "../lib/zone";
import css from "./parts.module.css";

export { css };

/// Drawn, and not taken from a font: not every machine has every sign.
export function Icon({ path }: { path: string }) {
  return <svg className={css.icon} viewBox="0 0 16 16" aria-hidden="true"><path d={path} /></svg>;
}

export function StateChip({ state }: { state: State }) {
  const { icon, tone } = STATES[state];
  return (
    <span className={`${css.chip} ${css[tone]}`} data-state={state}>
      <Icon path={icon} />
      {state.replace("_", " ")}
    </span>
  );
}

// One clock for the whole page: a thousand cells must not have a timer each.
let now = serverNow();
const listeners = new Set<() => void>();
const tick = () => {
  if (document.hidden) return;
  now = serverNow();
  listeners.forEach((call) => call());
};
setInterval(tick, 1000);
// It stood while nobody looked: what came meanwhile must not look as if it were due later.
document.addEventListener("visibilitychange", tick);

export function useNow(): number {
  return useSyncExternalStore(
    (call) => (listeners.add(call), () => listeners.delete(call)),
    () => now,
  );
}

/// A time, from now; the whole of it when pointed at.
export function Time({ at }: { at: string | null | undefined }) {
  return <TimeAt at={at} now={useNow()} utc={useUtc()} />;
}

/// The same, for who knows what time it is: a list does not have each of its rows listen to the clock twice.
export function TimeAt({ at, now, utc }: { at: string | null | undefined; now: number; utc: boolean }) {
  const time = millis(at);
  if (time === null) return <span className={css.muted}>–</span>;
  return (
    <time dateTime={at!} title={`${absolute(time, utc)}\n${absolute(time, !utc)}`} className={css.nowrap}>
      {relative(time, now)}
    </time>
  );
}

/// Copies, also where the page is not served over HTTPS and browsers offer no clipboard.
export async function copy(text: string): Promise<boolean> {
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return true;
    }
  } catch {
    // Not allowed: the older way may be.
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.style.position = "fixed";
  area.style.opacity = "0";
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

export function Copy({ text, label = "copy", name }: { text: string; label?: string; name?: string }) {
  const [done, setDone] = useState<string | null>(null);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(null), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  const click = async () => setDone((await copy(text)) ? "copied" : "not allowed");
  return (
    <button type="button" className={css.bare} aria-label={`Copy ${name ?? label}`} onClick={() => void click()}>
      {done ?? label}
    </button>
  );
}

export function Note({ tone, children }: { tone?: "red" | "amber" | "blue"; children: ReactNode }) {
  const colour = tone === "red" ? css.noteRed : tone === "amber" ? css.noteAmber : tone === "blue" ? css.noteBlue : "";
  return <div className={`${css.note} ${colour}`}>{children}</div>;
}

export function Problem({ error }: { error: unknown }) {
  if (!error) return null;
  const text = error instanceof Error ? error.message : String(error);
  const isStranger = error instanceof ApiError && error.status === 401;
  const hint = error instanceof ApiError && error.code === "timeout" ? " Narrow the window of time, or name a definition." : "";
  return (
    <div role="alert">
      <Note tone="red">
        <strong>✕</strong> <span>{isStranger ? "This server shows nothing to whom it does not know." : text + hint}</span>
        {isStranger && <button type="button" className={`${css.button} ${css.small}`} onClick={wantToken}>Sign in…</button>}
      </Note>
    </div>
  );
}

/// Somebody is about to send the marks of hidden values as if they were values.
export function Hidden() {
  return <Note tone="amber"><span>Parts of this input are hidden from you, and would be sent as <code>"[redacted]"</code>: write what belongs there.</span></Note>;
}

let isPainted = false;

/// Whether what somebody opened the dashboard for stands on the screen. On every later page it does from the beginning.
export function useFirstPaint(): boolean {
  const [isDone, setDone] = useState(isPainted);
  // After the next frame, however long that takes: effects do not wait for one on a busy machine. Of a tab that nobody sees there is none.
  useLayoutEffect(() => {
    if (isDone) return;
    const done = () => ((isPainted = true), setDone(true));
    if (document.hidden) return done();
    const frame = requestAnimationFrame(() => setTimeout(done));
    return () => cancelAnimationFrame(frame);
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  return isDone;
}

/// What is not what somebody opened the dashboard for: it is drawn, and asks for what it shows, after that.
export function AfterFirstPaint({ children }: { children: ReactNode }) {
  return useFirstPaint() ? <>{children}</> : null;
}

/// What asks for something of its own: it does so once it is on the screen, or almost. Of a long list most is never looked at.
export function WhenSeen({ children }: { children: ReactNode }) {
  const box = useRef<HTMLDivElement>(null);
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && setSeen(true), { rootMargin: "200px" });
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  // A box without any height is nowhere to be seen.
  return <div ref={box} className={css.seen}>{isSeen && children}</div>;
}

/// While something is on its way for the first time.
export function Loading() {
  return <div className={css.empty} role="status">Loading…</div>;
}

/// Names the tab: after the page's heading, without the way back, chips and times that stand in it, unless it has a name that says more.
export function useTitle(name?: string): RefObject<HTMLHeadingElement | null> {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    const own = [...(heading.current?.childNodes ?? [])].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.textContent).join("").trim();
    if (name ?? own) document.title = `${name ?? own} – Outlast`;
  });
  return heading;
}

export function Head({ title, name, children }: { title: ReactNode; name?: string; children?: ReactNode }) {
  const heading = useTitle(name);
  return (
    <div className={css.head}>
      <h1 ref={heading}>{title}</h1>
      {children && <div className={css.right}>{children}</div>}
    </div>
  );
}

/// Text without what terminals take for colours, and for links and titles.
export function plain(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/\u001b(\[[0-9;?]*[A-Za-z]|\][^\u0007\u001b]*(\u0007|\u001b\\))/g, "");
}

export function download(name: string, text: string, type = "application/json") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
