// A payload as a tree. Nothing is lost: numbers are shown as they were written. What is long opens piece by piece.
import { useState } from "react";
import { Exact, type Json, write } from "../lib/json";
import { Copy, css } from "./parts";

const PIECE = 100;
const LONG = 2000;

export function JsonView({ value, name }: { value: unknown; name: string }) {
  const json = value as Json;
  return (
    <div>
      <div className={css.jsonBar}>
        <Copy text={write(json, 2)} name={name} />
      </div>
      <div className={css.json} tabIndex={0} role="region" aria-label={name}>
        <Value value={json} depth={0} />
      </div>
    </div>
  );
}

function Value({ value, depth }: { value: Json; depth: number }) {
  if (value === null || typeof value === "boolean") return <span className={css.word}>{String(value)}</span>;
  if (value instanceof Exact || typeof value === "number") return <span className={css.number}>{String(value)}</span>;
  if (typeof value === "string") return <Text text={value} />;
  return <Branch value={value} depth={depth} />;
}

function Text({ text }: { text: string }) {
  const [whole, setWhole] = useState(false);
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
  return <a href="#" onClick={(event) => (event.preventDefault(), onClick())}>{label}</a>;
}

function Branch({ value, depth }: { value: Json[] | { [key: string]: Json }; depth: number }) {
  const entries = Object.entries(value);
  const [open, setOpen] = useState(depth < 2 || entries.length < 4);
  const [most, setMost] = useState(PIECE);
  const [left, right] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (!entries.length) return <span>{left + right}</span>;
  const size = Array.isArray(value) ? `${entries.length} items` : `${entries.length} fields`;
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
