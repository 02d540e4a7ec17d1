// What this browser keeps for whoever uses it, in one place. None of it is known to the server.
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { config } from "../app/config";
import { About } from "../app/Shell";
import { SignOut, useWho } from "../app/You";
import { ORDER, setTheme, useTheme } from "../app/theme";
import { type Codec, codec, COLUMNS, type Column, columns, forgetAll, forgetView, keepCodec, keepColumns, mute, opened, useMuted, views as savedViews } from "../lib/kept";
import { wrong } from "../lib/codec";
import { setUtc, useUtc } from "../lib/zone";
import { Ask, Field } from "../parts/Ask";
import { css, Head } from "../parts/parts";

export function SettingsPage() {
  const theme = useTheme();
  const utc = useUtc();
  const who = useWho();
  const muted = useMuted();
  const [views, setViews] = useState(savedViews);
  const [chosen, setChosen] = useState(() => columns(undefined));
  const [asking, setAsking] = useState(false);
  const toggle = (name: Column) => {
    const next = (Object.keys(COLUMNS) as Column[]).filter((one) => (one === name) !== chosen.includes(one));
    if (!next.length) return;
    keepColumns(next);
    setChosen(next);
  };
  const forget = async () => {
    forgetAll();
    location.reload();
  };
  return (
    <>
      <Head title="Settings"><button type="button" className={`${css.button} ${css.danger}`} onClick={() => setAsking(true)}>Forget everything…</button></Head>
      <p className={css.muted}>They are kept in this browser, and nowhere else.</p>
      <div className={css.stack}>
        <Card title="Theme"><Choice name="theme" options={ORDER.map((one) => [one, one === "system" ? "as the system says" : one])} value={theme} onChange={(value) => setTheme(value as typeof theme)} /></Card>
        <Card title="Times"><Choice name="zone" options={[["here", "in the zone of this machine"], ["utc", "in UTC"]]} value={utc ? "utc" : "here"} onChange={(value) => setUtc(value === "utc")} /></Card>
        <Card title="This server"><About /></Card>
        {who && <Card title="You"><p>{who}</p><div><SignOut /></div></Card>}
        <Card title="Columns of the list of runs">
          <div className={css.choices}>{(Object.keys(COLUMNS) as Column[]).map((name) => <label key={name} className={css.check}><input type="checkbox" checked={chosen.includes(name)} onChange={() => toggle(name)} /> {COLUMNS[name][0]}</label>)}</div>
        </Card>
        <Card title="Saved views">
          {views.length ? <ul>{views.map((view) => <li key={view.name}><Link to={"/runs" as string} search={view.search as never}>{view.name}</Link> <button type="button" className={css.bare} aria-label={`Forget the view ${view.name}`} onClick={() => setViews(forgetView(view.name))}>forget</button></li>)}</ul>
            : <p className={css.muted}>None: narrow the <Link to={"/runs" as string}>runs</Link>, then save the view.</p>}
        </Card>
        <Card title="Decoder of payloads"><Decoder /></Card>
        <Card title="Muted failures">
          {muted.length ? <ul>{muted.map((one) => <li key={one}><Link to={"/errors/$fp" as string} params={{ fp: one } as never} className={css.mono}>{one}</Link> <button type="button" className={css.bare} aria-label={`Show ${one} again`} onClick={() => mute(one, false)}>show again</button></li>)}</ul>
            : <p className={css.muted}>None: a kind of failure can be muted on its page.</p>}
        </Card>
        <Card title="Runs opened here">
          {opened().length ? <ul>{opened().map((run) => <li key={run.id}><Link to={`/runs/${run.id}` as string}>{run.name}</Link></li>)}</ul> : <p className={css.muted}>None yet.</p>}
        </Card>
      </div>
      {asking && <Ask title="Forget everything that is kept here?" action="Forget" danger onDo={forget} onClose={() => setAsking(false)}><p>Theme, zone, columns, {views.length === 1 ? "1 saved view" : `${views.length} saved views`}, muted failures, the decoder, opened runs and the places of dividers. Nothing on the server changes.</p></Ask>}
    </>
  );
}

function Card({ title, children }: { title: string; children: React.ReactNode }) {
  return <section className={css.card} style={{ padding: "12px 16px 14px", display: "grid", gap: 8 }}><h2>{title}</h2>{children}</section>;
}

function Choice({ name, options, value, onChange }: { name: string; options: [string, string][]; value: string; onChange: (value: string) => void }) {
  return (
    <div className={css.choices} role="radiogroup" aria-label={name}>
      {options.map(([one, word]) => <label key={one} className={css.check}><input type="radio" name={name} checked={one === value} onChange={() => onChange(one)} /> {word}</label>)}
    </div>
  );
}

/// Who decodes payloads for whoever looks. The server says whom pages may ask; which address there, and whether at all, is said here.
function Decoder() {
  const [kept, setKept] = useState(codec);
  const [url, setUrl] = useState(kept?.url ?? "");
  const [cookies, setCookies] = useState(kept?.cookies ?? false);
  if (!config.codec) return <p className={css.muted}>This server lets pages ask nobody else. <code>outlast serve --codec-origin https://codec.example.com</code> names one whom they may.</p>;
  const isWrong = url ? wrong(url, config.codec) : null;
  const keep = (next: Codec | null) => (keepCodec(next), setKept(next));
  return (
    <form className={css.stack} onSubmit={(event) => (event.preventDefault(), keep(url ? { url, cookies } : null))}>
      <p className={css.muted}>Where payloads are encrypted before they are recorded: a click on “decode” beside one sends it there, and shows what comes back. It never goes through this server.</p>
      <Field label="Address" hint={isWrong ?? `below ${config.codec}`}><input className={css.input} type="url" value={url} placeholder={`${config.codec}/decode`} aria-invalid={isWrong !== null} onChange={(event) => setUrl(event.target.value)} /></Field>
      <label className={css.check}><input type="checkbox" checked={cookies} onChange={(event) => setCookies(event.target.checked)} /> with the cookies that this browser has for it</label>
      <div><button type="submit" className={`${css.button} ${css.small}`} disabled={isWrong !== null || (url === (kept?.url ?? "") && cookies === (kept?.cookies ?? false))}>{url || !kept ? "Keep" : "Forget"}</button> {kept && <span className={css.muted}>Payloads can be decoded by {kept.url}</span>}</div>
    </form>
  );
}
