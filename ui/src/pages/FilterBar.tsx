// The words to which the list of runs is narrowed: chips for those that are there, and a field for more, which knows what can
// follow `field:`.
import { useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, useState } from "react";
import { api, data } from "../api/client";
import { add, FIELDS, read, saidLike, type Term } from "../lib/filter";
import { hintsOf, type Hint } from "../lib/hints";
import { useReach } from "../lib/me";
import css from "./runs.module.css";

/// What stands where nobody has written yet. On a telephone there is room for a part of it.
const SHOWN = innerWidth < 700 ? "status:failed, an id or key" : "status:failed  def:order  queue:mail  tag:city=Bern  since:2h, or an id or key";
/// What the server can suggest values for.
const SUGGESTED = ["status", "def", "queue"];

export function FilterBar({ terms, onChange }: { terms: Term[]; onChange: (terms: Term[]) => void }) {
  const [text, setText] = useState("");
  const reach = useReach();
  const last = /^(.*?)([a-z]+):([^\s"]*)$/s.exec(text);
  const [, before = "", field = "", begun = ""] = last ?? [];
  const suggestions = useQuery({
    queryKey: ["suggest", field, begun],
    queryFn: () => data(api.GET("/api/v1/suggest", { params: { query: { field, q: begun } } })),
    enabled: SUGGESTED.includes(field),
    staleTime: 10_000,
  });
  const press = (event: KeyboardEvent) => {
    if (event.key === "Enter" && text.trim()) {
      onChange(add(terms, read(text)));
      setText("");
    } else if (event.key === "Backspace" && !text && terms.length) onChange(terms.slice(0, -1));
    else if (event.key === "Escape") setText("");
  };
  const nodes = useQuery({ queryKey: ["nodes"], queryFn: () => data(api.GET("/api/v1/nodes")), enabled: field === "node" && reach("nodes") === true, staleTime: 10_000, retry: false });
  const definitions = useQuery({ queryKey: ["definitions"], queryFn: () => data(api.GET("/api/v1/definitions")), enabled: field === "version", staleTime: 10_000 });
  const def = add(terms, read(before)).find((term) => term.field === "def")?.value;
  const hints: Hint[] = SUGGESTED.includes(field)
    ? [...(suggestions.data?.items ?? []), ...(field === "status" ? saidLike(begun) : [])].map((value) => ({ value: `${before}${field}:${value}` }))
    : field ? hintsOf(field, { nodes: nodes.data?.items ?? [], definitions: definitions.data?.items ?? [], def }).map((hint) => ({ ...hint, value: `${before}${field}:${hint.value}` }))
    : FIELDS.filter((one) => one !== "q").map((one) => ({ value: `${text.replace(/\S*$/, "")}${one}:` }));
  return (
    <div className={css.filter} role="search">
      {terms.map((term) => (
        <span key={term.field + term.value} className={css.term}>
          <b>{term.field}:</b>{term.value}
          <button type="button" aria-label={`Remove ${term.field}:${term.value}`} onClick={() => onChange(terms.filter((one) => one !== term))}>×</button>
        </span>
      ))}
      <input id="filter" list="filter-hints" value={text} aria-label="Filter runs" autoComplete="off" placeholder={terms.length ? "" : SHOWN}
        onChange={(event) => setText(event.target.value)} onKeyDown={press} />
      <datalist id="filter-hints">{hints.map((hint) => <option key={hint.value} value={hint.value} label={hint.label} />)}</datalist>
    </div>
  );
}
