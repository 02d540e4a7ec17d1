// A payload as a tree. Nothing is lost: numbers are shown as they were written. What is long opens piece by piece, and what is
// huge is shown in part, to be downloaded.
import { createContext, useContext, useMemo, useState } from "react";
import { bytesIn, bytesOf } from "../lib/binary";
import { Exact, find, type Json, pathTo, write } from "../lib/json";
import { size, sizeOf } from "../lib/size";
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

/// Which value can be copied right now, by its path, and a way to choose another; and whether keys are sorted.
const Tree = createContext<{ chosen: string | null; choose: (path: string | null) => void; isSorted: boolean }>({ chosen: null, choose: () => {}, isSorted: false });

export function JsonView({ value, name }: { value: unknown; name: string }) {
  const json = value as Json;
  const [wanted, setWanted] = useState("");
  const [wrap, setWrap] = useState(true);
  const [isSorted, setSorted] = useState(false);
  const [chosen, choose] = useState<string | null>(null);
  const text = useMemo(() => write(json, 2), [json]);
  const whole = useMemo(() => size(sizeOf(text)), [text]);
  const hits = wanted ? find(json, wanted, HITS) : [];
  const isHuge = text.length > MOST;
  const tree = useMemo(() => ({ chosen, choose, isSorted }), [chosen, isSorted]);
  return (
    <div>
      <div className={css.jsonBar}>
        {text.length > WIDE && <input className={css.search} type="search" placeholder="Search" aria-label={`Search in ${name}`} value={wanted} onChange={(event) => setWanted(event.target.value)} />}
        {!isHuge && hasOrder(json) && <button type="button" className={css.bare} aria-pressed={isSorted} onClick={() => setSorted(!isSorted)}>{isSorted ? "as recorded" : "sort keys"}</button>}
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
        {isHuge ? <pre>{text.slice(0, MOST)}</pre> : <Tree.Provider value={tree}><Value value={json} depth={0} path="" /></Tree.Provider>}
      </div>
      {isHuge && <p className={css.muted}>The first {size(MOST)} of {whole} are shown: download it for the rest.</p>}
    </div>
  );
}

/// Whether keys of it can be in another order.
function hasOrder(value: Json): boolean {
  if (value === null || typeof value !== "object" || value instanceof Exact) return false;
  return (!Array.isArray(value) && Object.keys(value).length > 1) || Object.values(value).some(hasOrder);
}

function Value({ value, depth, path }: { value: Json; depth: number; path: string }) {
  if (value === null || typeof value === "boolean") return <span className={css.word}>{String(value)}</span>;
  if (value instanceof Exact || typeof value === "number") return <span className={css.number}>{String(value)}</span>;
  if (typeof value === "string") return <Text text={value} />;
  return <Branch value={value} depth={depth} path={path} />;
}

function Text({ text }: { text: string }) {
  const [whole, setWhole] = useState(false);
  const bytes = useMemo(() => bytesOf(text), [text]);
  if (text === HIDDEN) return <span className={`${css.chip} ${css.grey}`} title="The server hides this value from all but admins."><i aria-hidden="true">🔒</i>hidden</span>;
  if (bytes && !whole) return <><span className={`${css.chip} ${css.grey}`}>{bytesIn(bytes)}</span> <Button onClick={() => setWhole(true)} label="show" /></>;
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

/// The name of a value. Pressed, it offers what can be copied: one value at a time, because two buttons for each would be in everybody's way.
function Key({ name, value, path }: { name: string | number; value: Json; path: string }) {
  const { chosen, choose } = useContext(Tree);
  const isChosen = chosen === path;
  return (
    <>
      <button type="button" className={`${css.pieces} ${typeof name === "number" ? css.place : css.key}`} aria-expanded={isChosen} title={`${path}: copy its value or path`} onClick={() => choose(isChosen ? null : path)}>
        {typeof name === "number" ? name : JSON.stringify(name)}
      </button>
      {": "}
      {isChosen && <span className={css.copies}><Copy text={typeof value === "string" ? value : write(value, 2)} label="copy value" name={`value of ${path}`} /><Copy text={path} label="copy path" name={`path ${path}`} /></span>}
    </>
  );
}

function Button({ onClick, label }: { onClick: () => void; label: string }) {
  return <button type="button" className={css.pieces} onClick={onClick}>{label}</button>;
}

function Branch({ value, depth, path }: { value: Json[] | { [key: string]: Json }; depth: number; path: string }) {
  const { isSorted } = useContext(Tree);
  const isList = Array.isArray(value);
  const entries = Object.entries(value);
  if (isSorted && !isList) entries.sort(([a], [b]) => (a < b ? -1 : 1));
  const [open, setOpen] = useState(depth < 2 || (depth < DEEP && entries.length < 4));
  const [most, setMost] = useState(PIECE);
  const [left, right] = isList ? ["[", "]"] : ["{", "}"];
  if (!entries.length) return <span>{left + right}</span>;
  const size = `${entries.length} ${isList ? "item" : "field"}${entries.length === 1 ? "" : "s"}`;
  return (
    <>
      <button type="button" aria-expanded={open} aria-label={`${open ? "Close" : "Open"}: ${size}`} onClick={() => setOpen(!open)}>
        {open ? "▾" : "▸"}
      </button>
      {left}
      {open ? (
        <>
          <ul>
            {entries.slice(0, most).map(([key, item], place) => {
              const name = isList ? place : key;
              const at = pathTo(path, name);
              return (
                <li key={key}>
                  <Key name={name} value={item} path={at} />
                  <Value value={item} depth={depth + 1} path={at} />
                  {place < entries.length - 1 && ","}
                </li>
              );
            })}
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
