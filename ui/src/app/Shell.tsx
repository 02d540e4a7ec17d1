// What stands around every page: where one can go, whether what is shown is live, the theme, and keys.
import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useNavigate } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { api, data, onTokenWanted, signIn } from "../api/client";
import { Ask, Field } from "../parts/Ask";
import { toneOf } from "../lib/environment";
import { useListSearch, useMuted } from "../lib/kept";
import { ME, useReach } from "../lib/me";
import type { Thing } from "../lib/reach";
import { timeOfDay } from "../lib/time";
import { toggleUtc, useUtc } from "../lib/zone";
import { AfterFirstPaint, css as parts, useNow } from "../parts/parts";
import { config } from "./config";
import { JUMP, useKeys } from "./keys";
import { live, useLiveState, useTopics } from "./live";
import { Palette } from "./Palette";
import css from "./shell.module.css";
import { nextTheme, useTheme } from "./theme";
import { Limits } from "./You";

const RUNS = "/runs";

interface Page {
  to: string;
  name: string;
  key: string;
  /// What it is about, where that is not for everybody.
  of?: Thing;
  icon: ReactNode;
}

const PAGES: Page[] = [
  { to: "/", name: "Overview", key: "o", icon: <path d="M2 13V8h3v5zM6.5 13V3h3v10zM11 13V6h3v7z" /> },
  { to: RUNS, name: "Runs", key: "r", icon: <path d="M2 4h12M2 8h8M2 12h10" /> },
  { to: "/errors", name: "Errors", key: "e", of: "errors", icon: <path d="M8 2 1.5 13.5h13zM8 6.5v3M8 11.5h.01" /> },
  { to: "/queues", name: "Queues", key: "q", of: "queues", icon: <path d="M2 5h9M2 8h9M2 11h9M13 5v6M14.5 8H13" /> },
  { to: "/schedules", name: "Schedules", key: "s", of: "schedules", icon: <path d="M8 4v4l2.5 2M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13Z" /> },
  { to: "/nodes", name: "Nodes", key: "w", of: "nodes", icon: <path d="M2.5 2.5h11v4h-11zM2.5 9.5h11v4h-11zM5 4.5h.01M5 11.5h.01" /> },
  { to: "/definitions", name: "Definitions", key: "d", icon: <path d="M5.5 4 2 8l3.5 4M10.5 4 14 8l-3.5 4" /> },
  { to: "/bulk", name: "Bulk", key: "b", of: "bulk", icon: <path d="m2 5 6-3 6 3-6 3zM2 8l6 3 6-3M2 11l6 3 6-3" /> },
  { to: "/system", name: "System", key: "y", of: "system", icon: <path d="M2 9h2.5l2-5 3 8 2-5H14" /> },
];

/// The pages that whoever looks can be shown. All of them until it is known who that is: mostly it is all of them.
export function usePages(): Page[] {
  const reach = useReach();
  return PAGES.filter((page) => !page.of || reach(page.of) !== false);
}

export function useVersion() {
  return useQuery({ queryKey: ["version"], queryFn: () => data(api.GET("/version")), staleTime: Infinity });
}

export function useMe() {
  return useQuery(ME);
}

/// Whether whoever looks may also act. The API decides; this only says beforehand.
export function useMay(scope: "operate" | "start"): boolean {
  const me = useMe();
  return me.data ? (me.data.capabilities as string[]).includes(scope) : false;
}

export function Shell() {
  const main = useRef<HTMLElement>(null);
  const navigate = useNavigate();
  const [open, setOpen] = useState<"help" | "palette" | "token" | null>(null);
  const [pages, list] = [usePages(), useListSearch()];
  useTopics("runs");
  // Whoever wants to give none is not asked again by every answer: pages say how to get back to it.
  const isDeclined = useRef(false);
  useEffect(() => onTokenWanted((isAskedFor) => (isAskedFor || !isDeclined.current) && setOpen("token")) as () => void, []);
  useKeys((keys) => {
    const page = pages.find((one) => keys === `g ${one.key}`);
    if (page) void navigate({ to: page.to as string, search: searchOf(page) as never });
    else if (keys === "?") setOpen("help");
    else if (keys === "mod+k") setOpen("palette");
    else if (keys === ".") live.toggle();
    else if (keys === "t") nextTheme();
    else if (keys === "/") void focusFilter(() => navigate({ to: RUNS as string, search: list as never }));
    else return false;
    return true;
  });
  const close = () => setOpen(null);
  const searchOf = (page: Page) => (page.to === RUNS ? list : undefined);
  return (
    <div className={css.shell}>
      <a className={css.skip} href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>Skip to the content</a>
      <header className={css.top}>
        <Link to={"/" as string} className={css.brand} aria-label="Outlast">
          <img src={`${config.base}assets/favicon.svg`} alt="" />
          {/* On a telephone there is room for one name, and which installation it is matters more. */}
          <span className={config.environment ? css.wide : undefined}>Outlast</span>
        </Link>
        {config.environment && <span className={`${parts.chip} ${parts[toneOf(config.environment)]} ${css.environment}`} title={`This is ${config.environment}.`}>{config.environment}</span>}
        <div className={css.tools}>
          <button type="button" className={`${css.tool} ${css.jump}`} onClick={() => setOpen("palette")}>
            Jump to… <kbd>{JUMP}</kbd>
          </button>
          <Limits />
          <LiveButton />
          <ThemeButton />
          <Link to={"/settings" as string} className={css.tool} title="Settings" aria-label="Settings"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M2 4.5h6M12 4.5h2M2 11.5h2M8 11.5h6M10 2.5v4M6 9.5v4" /></svg></Link>
          <button type="button" className={css.tool} aria-label="Keys" onClick={() => setOpen("help")}>?</button>
        </div>
      </header>
      <nav className={css.nav} aria-label="Pages">
        <ul>
          {pages.map((page) => (
            <li key={page.to}>
              <Link to={page.to as string} search={searchOf(page) as never} activeOptions={{ exact: page.to === "/", includeSearch: false }} title={page.name} aria-label={page.name}>
                <svg viewBox="0 0 16 16" aria-hidden="true">{page.icon}</svg>
                <span>{page.name}</span>
              </Link>
              {page.to === "/errors" && <AfterFirstPaint><ErrorBadge /></AfterFirstPaint>}
            </li>
          ))}
        </ul>
        <div className={css.about}><AfterFirstPaint><About /></AfterFirstPaint></div>
      </nav>
      <main className={css.main} id="main" ref={main} tabIndex={-1}>
        <Outlet />
      </main>
      {open === "help" && <Help onClose={close} />}
      {open === "palette" && <Palette onClose={close} />}
      {open === "token" && <TokenDialog onClose={(isKnown) => (close(), (isDeclined.current = !isKnown))} />}
    </div>
  );
}

/// The field in which runs are filtered, on its page or from any other.
async function focusFilter(open: () => Promise<unknown>) {
  const field = () => document.getElementById("filter");
  // What the list is narrowed to stays, also where it is still to be drawn.
  if (!field() && location.pathname !== `${config.base}runs`) await open();
  // The page is there before it is drawn.
  for (let frame = 0; !field() && frame < 60; frame++) await new Promise(requestAnimationFrame);
  field()?.focus();
}

/// How many kinds of failures there were in a day. The number stays while a newer one is on its way.
function ErrorBadge() {
  const reach = useReach();
  const errors = useQuery({ queryKey: ["errors", "24h"], queryFn: () => data(api.GET("/api/v1/errors", { params: { query: { range: "24h" } } })), enabled: reach("errors") === true, refetchInterval: 15_000, retry: false });
  const muted = useMuted();
  const count = errors.data?.items.filter((group) => !muted.includes(group.fingerprint)).length ?? 0;
  return count ? <b className={css.badge} title={`${count === 1 ? "1 kind" : `${count} kinds`} of failures in 24 hours`}>{count >= 50 ? "50+" : count}</b> : null;
}

/// Which server it is, and its time: beside the pages, and in the settings for whom the screen has no room there.
export function About() {
  const version = useVersion();
  const now = useNow();
  const utc = useUtc();
  const time = timeOfDay(now, utc);
  return (
    <div>
      Outlast {version.data?.version ?? config.version}
      <br />
      {version.data ? (version.data.store === "sqlite" ? "SQLite" : "PostgreSQL") : " "}
      <br />
      <button type="button" className={parts.bare} title="The server's time. Click for the other zone." onClick={toggleUtc}>{time} {utc ? "UTC" : "here"}</button>
    </div>
  );
}

function LiveButton() {
  const state = useLiveState();
  const words = {
    connecting: <><span className={css.dot} data-off /> <span className={css.wide}>Live</span></>,
    live: <><span className={css.dot} /> <span className={css.wide}>Live</span></>,
    paused: <>❚❚ <span className={css.wide}>Paused</span></>,
    reconnecting: <span className={css.warn}>⚠ <span className={css.wide}>Reconnecting</span></span>,
    polling: <span className={css.warn}>⚠ <span className={css.wide}>Reconnecting</span></span>,
  };
  const title = state === "live" ? "What changes is shown at once. Click to pause." : state === "connecting" ? "What changes is shown as soon as the server answers." : "Click to change.";
  return (
    <button type="button" className={css.tool} title={title} aria-label={`Live updates: ${state}`} onClick={() => live.toggle()}>
      {words[state]}
    </button>
  );
}

function ThemeButton() {
  const theme = useTheme();
  const icon = { system: "◐", light: "☀", dark: "☾" }[theme];
  return (
    <button type="button" className={css.tool} title={`Theme: ${theme}`} aria-label={`Theme: ${theme}`} onClick={nextTheme}>
      {icon}
    </button>
  );
}

function Help({ onClose }: { onClose: () => void }) {
  const pages = usePages();
  const keys: [string, ReactNode][] = [
    ["?", "These keys"], [JUMP, "Jump to a run, a page, a definition"], ["/", "Filter runs"], [".", "Pause and resume live updates"], ["t", "Theme"],
    ...pages.map((page) => [`g ${page.key}`, page.name] as [string, ReactNode]),
    ["j k", "Down and up in the list of runs"], ["x", "Select a run"], ["Enter", "Open"], ["r", "Retry or rerun the run"], ["c", "Cancel the run"], ["[ ]", "The run before and after it in the list"], ["↑ ↓", "Steps of the timeline"], ["→ ←", "Open and close a child"], ["e w", "Open and close all children"], ["f", "First failure of a run"], ["Esc", "Close, or leave a field"],
  ];
  return (
    <Ask title="Keys" action="Close" isNote onDo={async () => {}} onClose={onClose}>
      <dl className={css.list}>
        {keys.map(([key, what]) => (
          <div key={key} style={{ display: "contents" }}>
            <dt>{key.split(" ").map((one) => <kbd key={one}>{one}</kbd>)}</dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Ask>
  );
}

function TokenDialog({ onClose }: { onClose: (isKnown: boolean) => void }) {
  const [text, setText] = useState("");
  const isKnown = useRef(false);
  const submit = async () => {
    try {
      await signIn(text.trim());
    } catch (error) {
      // What is wrong with it, and no other way to be asked: this is it.
      throw new Error((error as Error).message);
    }
    isKnown.current = true;
    location.hash = "";
    live.toggle();
    live.toggle();
  };
  return (
    <Ask title="This server wants a token" action="Sign in" onDo={submit} onClose={() => onClose(isKnown.current)} disabled={!text.trim()}>
      <p className={parts.muted}>
        <code>outlast token create NAME --role viewer</code> makes one. It is kept where no script can read it.
      </p>
      <Field label="Token">
        <input className={parts.input} type="password" autoComplete="off" value={text} onChange={(event) => setText(event.target.value)} />
      </Field>
    </Ask>
  );
}

export function NotFound() {
  return (
    <div className={parts.empty}>
      <h2>There is no such page</h2>
      <Link to={"/runs" as string}>To the runs</Link>
    </div>
  );
}
