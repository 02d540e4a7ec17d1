// Definitions: what nodes know how to run, and a way to start one.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { useMay } from "../app/Shell";
import { parse, write } from "../lib/json";
import { Ask, Field } from "../parts/Ask";
import { css, Head, Loading, Problem } from "../parts/parts";

export function DefinitionsPage() {
  const may = useMay("start");
  const [starting, setStarting] = useState<string | null>(null);
  const definitions = useQuery({ queryKey: ["definitions"], queryFn: () => data(api.GET("/api/v1/definitions")) });
  return (
    <>
      <Head title="Definitions" />
      <Problem error={definitions.error} />
      {definitions.isPending ? <Loading /> : (
        <div className={`${css.card} ${css.scroll}`}>
          <table className={css.table}>
            <thead><tr><th>Name</th><th>Kind</th><th className={css.num}>Version</th><th>New runs</th><th>Queue</th><th className={css.num}>Priority</th><th>Options</th>{may && <th>Actions</th>}</tr></thead>
            <tbody>
              {definitions.data?.items.map((one) => (
                <tr key={`${one.name}@${one.version}`}>
                  <td><Link to={"/runs" as string} search={{ def: one.name } as never}>{one.name}</Link></td>
                  <td>{one.kind}</td>
                  <td className={css.num}>{one.version}</td>
                  <td>{one.active ? <span className={`${css.chip} ${css.green}`}><i aria-hidden="true">✓</i>yes</span> : <span className={css.muted}>no</span>}</td>
                  <td><Link to={"/runs" as string} search={{ queue: one.queue } as never}>{one.queue}</Link></td>
                  <td className={css.num}>{one.priority}</td>
                  <td className={css.mono}><Options options={one.options} /></td>
                  {may && <td><div className={css.actions}>{one.active && !one.name.startsWith("outlast.") && <button type="button" className={`${css.button} ${css.small}`} aria-label={`Start ${one.name}`} onClick={() => setStarting(one.name)}>Start…</button>}</div></td>}
                </tr>
              ))}
            </tbody>
          </table>
          {!definitions.data?.items.length && !definitions.error && <div className={css.empty}>No node has told of any workflow or job yet.</div>}
        </div>
      )}
      {starting && <StartDialog name={starting} onClose={() => setStarting(null)} />}
    </>
  );
}

function Options({ options }: { options: unknown }) {
  // What is not said is left away.
  const said = options && typeof options === "object" ? Object.entries(options).filter(([, value]) => value !== null) : [];
  const text = said.map(([name, value]) => `${name}: ${write(value)}`).join(", ");
  return <span title={write(options, 2)} className={css.muted}>{text.length > 60 ? `${text.slice(0, 60)}…` : text}</span>;
}

function StartDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const navigate = useNavigate();
  const [input, setInput] = useState<string | null>(null);
  const [key, setKey] = useState("");
  // What the last run was called with is mostly what the next one wants.
  const last = useQuery({
    queryKey: ["runs", "last", name],
    queryFn: () => data(api.GET("/api/v1/runs", { params: { query: { def: name, limit: 1 } as never } })),
    placeholderData: undefined,
  });
  const text = input ?? (last.data?.items[0] ? write(last.data.items[0].input ?? null, 2) : "null");
  const start = async () => {
    const body = { definition: name, input: parse(text), key: key || undefined } as Schemas["StartRun"];
    const { id } = (await data(api.POST("/api/v1/runs", { body }))) as Schemas["Started"];
    void navigate({ to: `/runs/${id}` as string });
  };
  return (
    <Ask title={`Start ${name}`} action="Start" onDo={start} onClose={onClose}>
      <Field label="Input" hint="JSON; that of the last run, if there was one"><textarea className={css.input} value={text} spellCheck={false} onChange={(event) => setInput(event.target.value)} /></Field>
      <Field label="Key" hint="the same key never starts twice"><input className={css.input} value={key} onChange={(event) => setKey(event.target.value)} /></Field>
    </Ask>
  );
}
