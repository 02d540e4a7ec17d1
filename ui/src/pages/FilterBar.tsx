// The words to which the list of runs is narrowed: chips for those that are there, and a field for more, which knows what can
// follow `field:`.
import { useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, useState } from "react";
import { api, data } from "../api/client";
import { add, FIELDS, read, type Term } from "../lib/filter";
import css from "./runs.module.css";

/// What the server can suggest values for.
const SUGGESTED = ["status", "def", "queue"];
const EXAMPLES = ["since:1h", "since:24h", "since:7d", "since:all", "until:1h"];

export function FilterBar({ terms, onChange }: { terms: Term[]; onChange: (terms: Term[]) => void }) {
  const [text, setText] = useState("");
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
  const hints = SUGGESTED.includes(field)
    ? (suggestions.data?.items ?? []).map((value) => `${before}${field}:${value}`)
    : field ? EXAMPLES.filter((one) => one.startsWith(`${field}:`)).map((one) => before + one)
    : FIELDS.filter((one) => one !== "q").map((one) => `${text.replace(/\S*$/, "")}${one}:`);
  return (
    <div className={css.filter} role="search">
      {terms.map((term) => (
        <span key={term.field + term.value} className={css.term}>
          <b>{term.field}:</b>{term.value}
          <button type="button" aria-label={`Remove ${term.field}:${term.value}`} onClick={() => onChange(terms.filter((one) => one !== term))}>×</button>
        </span>
      ))}
      <input id="filter" list="filter-hints" value={text} aria-label="Filter runs" autoComplete="off" placeholder={terms.length ? "" : "status:failed  def:order  queue:mail  tag:city=Bern  since:2h, or an id or key"}
        onChange={(event) => setText(event.target.value)} onKeyDown={press} />
      <datalist id="filter-hints">{hints.map((hint) => <option key={hint} value={hint} />)}</datalist>
    </div>
  );
}
