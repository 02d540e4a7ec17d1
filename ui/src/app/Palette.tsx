// Jump to a page, a thing by its name, or a run by its id or key; and what can be done from anywhere.
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useEffect, useState } from "react";
import { api, data } from "../api/client";
import { opened, seen } from "../lib/kept";
import { useReach } from "../lib/me";
import { toggleUtc } from "../lib/zone";
import { Modal } from "../parts/Modal";
import { css as parts } from "../parts/parts";
import { live } from "./live";
import { offers } from "./offers";
import css from "./shell.module.css";
import { usePages } from "./Shell";
import { nextTheme } from "./theme";

interface Option {
  label: string;
  hint: string;
  to?: string;
  params?: Record<string, string>;
  search?: Record<string, string>;
  act?: () => void;
}

export function Palette({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const [place, setPlace] = useState(0);
  const [pages, reach] = [usePages(), useReach()];
  const definitions = useQuery({ queryKey: ["definitions"], queryFn: () => data(api.GET("/api/v1/definitions")) });
  const queues = useQuery({ queryKey: ["queues"], queryFn: () => data(api.GET("/api/v1/queues")), enabled: reach("queues") === true, retry: false });
  const nodes = useQuery({ queryKey: ["nodes"], queryFn: () => data(api.GET("/api/v1/nodes")), enabled: reach("nodes") === true, retry: false });
  const schedules = useQuery({ queryKey: ["schedules"], queryFn: () => data(api.GET("/api/v1/schedules")), enabled: reach("schedules") === true, retry: false });

  const wanted = text.trim().toLowerCase();
  const names = [...new Set((definitions.data?.items ?? []).map((one) => one.name))];
  const known: Option[] = [
    ...offers().map(({ label, act }) => ({ label, hint: "this run", act })),
    ...pages.map((page) => ({ label: page.name, hint: "page", to: page.to })),
    ...names.map((name) => ({ label: name, hint: "runs of it", to: "/runs", search: { def: name } })),
    ...names.map((name) => ({ label: name, hint: "definition", to: "/definitions/$name", params: { name } })),
    ...(queues.data?.items ?? []).map(({ name }) => ({ label: name, hint: "queue", to: "/queues/$name", params: { name } })),
    ...(schedules.data?.items ?? []).map(({ name }) => ({ label: name, hint: "schedule", to: "/schedules/$name", params: { name } })),
    ...(nodes.data?.items ?? []).map(({ id, name }) => ({ label: name, hint: `node …${id.slice(-8)}`, to: "/nodes/$id", params: { id } })),
    ...opened().map(({ id, name }) => ({ label: name, hint: `opened lately, …${id.slice(-8)}`, to: `/runs/${id}` })),
    { label: "Settings", hint: "page", to: "/settings" },
    { label: "Open an exported run", hint: "page", to: "/runs/import" },
    { label: "Failed runs", hint: "of the last day", to: "/runs", search: { status: "failed", ended: "24h" } },
    { label: "Change the theme", hint: "action", act: nextTheme },
    { label: "Pause or resume live updates", hint: "action", act: () => live.toggle() },
    { label: "Show times in the other zone", hint: "action", act: toggleUtc },
  ];
  const options = known.filter((one) => one.label.toLowerCase().includes(wanted)).slice(0, 12);
  // As lists show ids: by their end.
  const tail = /^(?:…|\.{3})?([0-9a-z]{6,})$/.exec(wanted)?.[1];
  for (const id of tail ? seen().filter((id) => id.endsWith(tail)) : []) options.unshift({ label: id, hint: "run", to: `/runs/${id}` });
  if (/^run_\w+$/.test(wanted)) options.unshift({ label: wanted, hint: "run", to: `/runs/${wanted}` });
  else if (wanted) options.push({ label: text.trim(), hint: "runs with this key", to: "/runs", search: { q: text.trim() } });
  const at = Math.min(place, options.length - 1);

  // Whoever walks along it sees where they are.
  useEffect(() => document.getElementById(`option-${at}`)?.scrollIntoView({ block: "nearest" }), [at]);

  const go = (option: Option | undefined) => {
    if (!option) return;
    onClose();
    if (option.act) option.act();
    else void navigate({ to: option.to as string, params: option.params as never, search: option.search as never });
  };
  const press = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setPlace(Math.max(0, Math.min(options.length - 1, at + step)));
    } else if (event.key === "Enter") {
      event.preventDefault();
      go(options[at]);
    }
  };
  return (
    <Modal aria-label="Jump to" onClose={onClose}>
      <form onSubmit={(event) => event.preventDefault()}>
        <input
          className={parts.input} placeholder="A page, a definition, an id or a key" value={text} autoFocus role="combobox"
          aria-label="Jump to" aria-expanded="true" aria-controls="options" aria-activedescendant={`option-${at}`}
          onChange={(event) => (setText(event.target.value), setPlace(0))} onKeyDown={press}
        />
        <ul className={css.options} id="options" role="listbox" aria-label="Where to">
          {options.map((option, index) => (
            <li key={option.hint + option.label} id={`option-${index}`} role="option" aria-selected={index === at} onClick={() => go(option)}>
              {option.label} <span className={parts.muted}>{option.hint}</span>
            </li>
          ))}
        </ul>
      </form>
    </Modal>
  );
}
