// An event for a run, or a value for a promise of it. Nobody declares what these carry: the dialog knows which ones the run waits for,
// and offers the fields of the last one of that name, of this run or of another of its definition.
import { queryOptions, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Once } from "../api/client";
import { fields, isJson } from "../lib/form";
import { hasHidden, parse, write } from "../lib/json";
import { BRIEF } from "../lib/payload";
import { emptied, lastOf, schemaOf } from "../lib/shape";
import type { Run, Step } from "../lib/state";
import { Ask, Field, ReasonField } from "../parts/Ask";
import { FormFields, JsonText } from "../parts/FormField";
import { css as parts, Hidden } from "../parts/parts";
import { arrival } from "./acts";
import { useRefresh } from "./refresh";

/// How many other runs of the definition are looked at for such a message, and how much of each.
const OTHERS = 5;
const STEPS = 500;

const OPS = { event: "event", settle: "promise" } as const;

function seen(run: Run, steps: Step[] | undefined, op: "event" | "promise", name: string) {
  return queryOptions({
    queryKey: ["messages", run.definition, run.id, op, name],
    queryFn: async ({ signal }) => {
      const own = lastOf(steps!, op, name);
      if (own || !name) return own ?? null;
      const { items } = await data(api.GET("/api/v1/runs", { params: { query: { def: run.definition, limit: OTHERS + 1 } as never }, signal }));
      for (const other of items.filter((one) => one.id !== run.id).slice(0, OTHERS)) {
        const { items: theirs } = await data(api.GET("/api/v1/runs/{id}/steps", { params: { path: { id: other.id }, query: { limit: STEPS, preview: BRIEF } }, signal }));
        const found = lastOf(theirs, op, name);
        if (found) return found;
      }
      return null;
    },
    enabled: steps !== undefined, placeholderData: undefined, staleTime: "static", retry: false,
  });
}

export function MessageDialog({ run, steps, kind, names, onClose }: { run: Run; steps?: Step[]; kind: "event" | "settle"; names: string[]; onClose: () => void }) {
  const refresh = useRefresh(run.id);
  const [name, setName] = useState(names[0] ?? "");
  // What is half typed is no name yet.
  const [looked, setLooked] = useState(name);
  const [typed, setTyped] = useState<string | null>(null);
  const [asJson, setAsJson] = useState(false);
  const [reason, setReason] = useState("");
  // Whoever writes JSON is left with it, whatever is found meanwhile.
  const last = useQuery(seen(run, steps, OPS[kind], looked)).data;
  const form = last && !asJson ? fields(schemaOf(last.value)) : null;
  const text = typed ?? (last ? write(emptied(last.value), 2) : "null");
  const isWrong = !isJson(text);
  const hides = hasHidden(text);
  const send = async (once: Once) => {
    const body = { name, data: parse(text), reason: reason || undefined } as never;
    const params = { path: { id: run.id } };
    await data(kind === "event" ? once.POST("/api/v1/runs/{id}/events", { params, body }) : once.POST("/api/v1/runs/{id}/promises", { params, body }));
    await refresh();
  };
  return (
    <Ask title={kind === "event" ? "Send an event" : "Settle a promise"} action={kind === "event" ? "Send" : "Settle"} onDo={send} onClose={onClose} disabled={!name || isWrong || hides}>
      <p className={parts.muted}>{arrival(kind, names.includes(name))}</p>
      <Field label="Name" hint={names.length ? `the run waits for ${names.join(", ")}` : undefined}>
        <input className={parts.input} value={name} required list={names.length > 1 ? "awaited" : undefined} onChange={(event) => (setName(event.target.value), names.includes(event.target.value) && setLooked(event.target.value))} onBlur={() => setLooked(name)} />
        {names.length > 1 && <datalist id="awaited">{names.map((one) => <option key={one} value={one} />)}</datalist>}
      </Field>
      {form ? <FormFields form={form} whole="Data" text={text} onChange={setTyped} />
        : <JsonText label="Data" hint={last ? `with the fields of the last ${OPS[kind]} of this name` : undefined} text={text} onChange={(typed) => (setTyped(typed), setAsJson(true))} />}
      {hides && <Hidden />}
      {last && fields(schemaOf(last.value)) && <label className={parts.check}><input type="checkbox" checked={asJson} onChange={(event) => setAsJson(event.target.checked)} /> as JSON <small className={parts.muted}>These are the fields of the last {OPS[kind]} of this name: nobody declares others.</small></label>}
      <ReasonField value={reason} onChange={setReason} />
    </Ask>
  );
}
