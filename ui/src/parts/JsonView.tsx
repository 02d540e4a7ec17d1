// A payload as a tree. Nothing is lost: numbers are shown as they were written. What is long opens piece by piece, and what is
// huge is shown in part, to be downloaded.
import { useMemo, useState } from "react";
import { Exact, find, type Json, write } from "../lib/json";
import { sizeOf } from "../lib/size";
import { Copy, css, download } from "./parts";

const PIECE = 100;
const LONG = 2000;
/// The most letters of which a tree is made.
const MOST = 64 * 1024;
/// From this size on there is something to search.
const WIDE = 400;
const HITS = 50;
/// How deep branches are open by themselves. What is nested further has no room left beside its own beginning.
const DEEP = 4;
/// What the server sends in place of a value that it hides.
const HIDDEN = "[redacted]";

export function JsonView({ value, name }: { value: unknown; name: string }) {
  const json = value as Json;
  const [wanted, setWanted] = useState("");
  const [wrap, setWrap] = useState(true);
  const text = useMemo(() => write(json, 2), [json]);
  const whole = useMemo(() => size(sizeOf(text)), [text]);
  const hits = wanted ? find(json, wanted, HITS) : [];
  const isHuge = text.length > MOST;
  return (
    <div>
      <div className={css.jsonBar}>
        {text.length > WIDE && <input className={css.search} type="search" placeholder="Search" aria-label={`Search in ${name}`} value={wanted} onChange={(event) => setWanted(event.target.value)} />}
        {text.length > WIDE && <button type="button" className={css.bare} aria-pressed={wrap} onClick={() => setWrap(!wrap)}>{wrap ? "do not wrap" : "wrap"}</button>}
        {text.length > WIDE && <button type="button" className={css.bare} onClick={() => download(`${name.replaceAll(/[^\w-]+/g, "-")}.json`, text)}>download {whole}</button>}
        <Copy text={text} name={name} />
      </div>
      {wanted && (
        <ul className={css.hits} aria-label="Found">
          {hits.map((hit) => <li key={hit.path}><b>{hit.path}</b> {hit.text} <Copy text={hit.path} label="copy path" name={`path ${hit.path}`} /></li>)}
          {!hits.length && <li>Nothing in it has these letters.</li>}
          {hits.length === HITS && <li>and perhaps more</li>}
        </ul>
      )}
      <div className={css.json} data-wrap={wrap} tabIndex={0} role="region" aria-label={name}>
        {isHuge ? <pre>{text.slice(0, MOST)}</pre> : <Value value={json} depth={0} />}
      </div>
      {isHuge && <p className={css.muted}>The first {size(MOST)} of {whole} are shown: download it for the rest.</p>}
    </div>
  );
}

function size(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 * 1024 ? `${Math.round(bytes / 1024)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

function Value({ value, depth }: { value: Json; depth: number }) {
  if (value === null || typeof value === "boolean") return <span className={css.word}>{String(value)}</span>;
  if (value instanceof Exact || typeof value === "number") return <span className={css.number}>{String(value)}</span>;
  if (typeof value === "string") return <Text text={value} />;
  return <Branch value={value} depth={depth} />;
}

function Text({ text }: { text: string }) {
  const [whole, setWhole] = useState(false);
  if (text === HIDDEN) return <span className={`${css.chip} ${css.grey}`} title="The server hides this value from all but admins."><i aria-hidden="true">🔒</i>hidden</span>;
  const shown = whole || text.length <= LONG ? text : text.slice(0, LONG);
  return (
    <span className={css.string}>
      {JSON.stringify(shown)}
      {shown !== text && (
        <span> <Button onClick={() => setWhole(true)} label={`… ${(text.length - LONG).toLocaleString("en")} more letters`} /></span>
      )}
    </span>
  );
}

function Button({ onClick, label }: { onClick: () => void; label: string }) {
  return <button type="button" className={css.pieces} onClick={onClick}>{label}</button>;
}

function Branch({ value, depth }: { value: Json[] | { [key: string]: Json }; depth: number }) {
  const entries = Object.entries(value);
  const [open, setOpen] = useState(depth < 2 || (depth < DEEP && entries.length < 4));
  const [most, setMost] = useState(PIECE);
  const [left, right] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (!entries.length) return <span>{left + right}</span>;
  const size = `${entries.length} ${Array.isArray(value) ? "item" : "field"}${entries.length === 1 ? "" : "s"}`;
  return (
    <>
      <button type="button" aria-expanded={open} aria-label={`${open ? "Close" : "Open"}: ${size}`} onClick={() => setOpen(!open)}>
        {open ? "▾" : "▸"}
      </button>
      {left}
      {open ? (
        <>
          <ul>
            {entries.slice(0, most).map(([key, item], place) => (
              <li key={key}>
                {!Array.isArray(value) && <><span className={css.key}>{JSON.stringify(key)}</span>: </>}
                <Value value={item} depth={depth + 1} />
                {place < entries.length - 1 && ","}
              </li>
            ))}
            {entries.length > most && <li><Button onClick={() => setMost(most + 10 * PIECE)} label={`… ${entries.length - most} more`} /></li>}
          </ul>
          {right}
        </>
      ) : (
        <span className={css.muted}> {size} {right}</span>
      )}
    </>
  );
}
