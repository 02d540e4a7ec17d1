// Definitions: what nodes know how to run, and a way to start one.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { api, ApiError, data, type Schemas } from "../api/client";
import { useMay } from "../app/Shell";
import { changed, type Field as FormFieldOf, fields, isJson, shown } from "../lib/form";
import { hasHidden, parse, write } from "../lib/json";
import { duration } from "../lib/time";
import { Ask, Field } from "../parts/Ask";
import { Latency, Throughput } from "../parts/Chart";
import { css, Head, Hidden, Loading, Problem } from "../parts/parts";
import { Back, Facts, RunTable } from "../parts/RunTable";
import { ErrorTable } from "./Errors";
import { RangeSwitch, useRange } from "./Overview";
import page from "./overview.module.css";

/// How many nodes know a version: none can run what nobody knows.
function Knowing({ of }: { of: { name: string; version: number } }) {
  const nodes = useQuery({ queryKey: ["nodes"], queryFn: () => data(api.GET("/api/v1/nodes")), refetchInterval: 10_000, retry: false });
  const count = nodes.data?.items.filter((node) => node.codes.includes(`${of.name}@${of.version}`)).length;
  return <>{count?.toLocaleString("en")}</>;
}

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
            <thead><tr><th>Name</th><th>Kind</th><th className={css.num}>Version</th><th className={css.num}>Nodes</th><th>New runs</th><th>Queue</th><th className={css.num}>Priority</th><th>Options</th>{may && <th className={css.num}>Actions</th>}</tr></thead>
            <tbody>
              {definitions.data?.items.map((one) => (
                <tr key={`${one.name}@${one.version}`}>
                  <td><Link to={"/definitions/$name" as string} params={{ name: one.name } as never}>{one.name}</Link></td>
                  <td>{one.kind}</td>
                  <td className={css.num}>{one.version}</td>
                  <td className={css.num}><Knowing of={one} /></td>
                  <td>{one.active ? <span className={`${css.chip} ${css.green}`}><i aria-hidden="true">✓</i>yes</span> : <span className={css.muted}>no</span>}</td>
                  <td><Link to={"/queues/$name" as string} params={{ name: one.queue } as never}>{one.queue}</Link></td>
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

/// One definition: its versions, how its runs ended lately, and a way to start one.
export function DefinitionPage() {
  const { name } = useParams({ strict: false }) as { name: string };
  const may = useMay("start");
  const range = useRange();
  const [starting, setStarting] = useState(false);
  const query = { params: { query: { range, def: name } } };
  const found = useQuery({ queryKey: ["definitions", name], queryFn: () => data(api.GET("/api/v1/definitions/{name}", { params: { path: { name } } })) });
  const summary = useQuery({ queryKey: ["stats", "summary", range, name], queryFn: () => data(api.GET("/api/v1/stats/summary", query)), refetchInterval: 5000 });
  const series = useQuery({ queryKey: ["stats", "series", range, name], queryFn: () => data(api.GET("/api/v1/stats/series", query)), refetchInterval: 5000 });
  const errors = useQuery({ queryKey: ["errors", range, name], queryFn: () => data(api.GET("/api/v1/errors", query)), refetchInterval: 5000 });
  if (!found.data?.items.length) {
    if (found.isPending) return <Loading />;
    if (found.error && !(found.error instanceof ApiError && found.error.status === 404)) return <Problem error={found.error} />;
    return <div className={css.empty}><h2>No node knows {name}</h2><p>Its runs are <Link to={"/runs" as string} search={{ def: name } as never}>in the list</Link>.</p></div>;
  }
  const sums = summary.data;
  const ended = sums ? sums.completed + sums.failed : 0;
  const isActive = found.data.items.some((one) => one.active);
  return (
    <>
      <Head title={<><Back to="/definitions" name="Definitions" /> {name}</>}>
        <RangeSwitch to="/definitions/$name" params={{ name }} />
        {may && isActive && !name.startsWith("outlast.") && <button type="button" className={`${css.button} ${css.primary}`} onClick={() => setStarting(true)}>Start…</button>}
      </Head>
      {sums && (
        <Facts facts={[
          ["Running", sums.running.toLocaleString("en")], ["Queued", sums.queued.toLocaleString("en")], ["Waiting", sums.waiting.toLocaleString("en")],
          [`Completed in ${range}`, sums.completed.toLocaleString("en")], [`Failed in ${range}`, sums.failed.toLocaleString("en")],
          ["Success", ended ? `${((100 * sums.completed) / ended).toFixed(1)} %` : "–"], ["Half within", sums.p50_ms != null ? duration(sums.p50_ms) : "–"], ["95 % within", sums.p95_ms != null ? duration(sums.p95_ms) : "–"],
        ]} />
      )}
      {series.data && <div className={page.charts} style={{ marginTop: 14 }}><Throughput points={series.data.points} step={series.data.step_ms} /><Latency points={series.data.points} /></div>}
      <section className={`${css.card} ${css.scroll}`}>
        <table className={css.table}>
          <thead><tr><th>Kind</th><th className={css.num}>Version</th><th className={css.num}>Nodes</th><th>New runs</th><th>Queue</th><th className={css.num}>Priority</th><th>Options</th></tr></thead>
          <tbody>
            {found.data.items.map((one) => (
              <tr key={one.version}>
                <td>{one.kind}</td><td className={css.num}><Link to={"/runs" as string} search={{ def: name, version: String(one.version) } as never} title={`Runs of version ${one.version}`}>{one.version}</Link></td><td className={css.num}><Knowing of={one} /></td><td>{one.active ? "yes" : <span className={css.muted}>no</span>}</td>
                <td><Link to={"/queues/$name" as string} params={{ name: one.queue } as never}>{one.queue}</Link></td><td className={css.num}>{one.priority}</td><td className={css.mono}><Options options={one.options} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {!!errors.data?.items.length && <section className={`${css.card} ${css.scroll} ${css.section}`}><h2>Failures</h2><ErrorTable items={errors.data.items} /></section>}
      <RunTable title="Last runs" search={{ def: name }} />
      {starting && <StartDialog name={name} onClose={() => setStarting(false)} />}
    </>
  );
}

function Options({ options }: { options: unknown }) {
  // What is not said is left away.
  const said = options && typeof options === "object" ? Object.entries(options).filter(([name, value]) => value !== null && value !== false && name !== "input_schema") : [];
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
  const cards = useQuery({ queryKey: ["definitions"], queryFn: () => data(api.GET("/api/v1/definitions")) });
  const card = cards.data?.items.find((one) => one.name === name && one.active);
  const form = fields((card?.options as { input_schema?: unknown } | undefined)?.input_schema);
  const [asJson, setAsJson] = useState(false);
  const text = input ?? (last.data?.items[0] ? write(last.data.items[0].input ?? null, 2) : "null");
  const hides = hasHidden(text);
  const start = async () => {
    const body = { definition: name, input: parse(text), key: key || undefined } as Schemas["StartRun"];
    const { id } = (await data(api.POST("/api/v1/runs", { body }))) as Schemas["Started"];
    void navigate({ to: `/runs/${id}` as string });
  };
  return (
    <Ask title={`Start ${name}`} action="Start" onDo={start} onClose={onClose} disabled={hides}>
      {form && !asJson
        ? form.map((field) => <FormField key={field.name} field={field} value={shown(text, field)} onChange={(typed) => setInput(changed(text, field, typed))} />)
        : <Field label="Input" hint="JSON; that of the last run, if there was one"><textarea className={css.input} value={text} spellCheck={false} onChange={(event) => setInput(event.target.value)} /></Field>}
      {hides && <Hidden />}
      {form && <label className={css.check}><input type="checkbox" checked={asJson} onChange={(event) => setAsJson(event.target.checked)} /> as JSON</label>}
      <Field label="Key" hint="the same key never starts twice"><input className={css.input} value={key} onChange={(event) => setKey(event.target.value)} /></Field>
    </Ask>
  );
}

function FormField({ field, value, onChange }: { field: FormFieldOf; value: string; onChange: (typed: string) => void }) {
  const label = field.name || "Input";
  if (field.kind === "boolean") return <label className={css.check}><input type="checkbox" checked={value === "true"} onChange={(event) => onChange(String(event.target.checked))} /> {label} {field.hint && <small className={css.muted}>{field.hint}</small>}</label>;
  if (field.kind === "json") return <JsonField label={label} field={field} value={value} onChange={onChange} />;
  return (
    <Field label={label} hint={field.hint ?? (field.required ? undefined : "may be left empty")}>
      {field.kind === "choice"
        ? <select className={css.input} value={value} required={field.required} onChange={(event) => onChange(event.target.value)}><option value="" />{field.choices.map((one) => <option key={one}>{one}</option>)}</select>
        : <input className={css.input} value={value} required={field.required} inputMode={field.kind === "number" ? (field.whole ? "numeric" : "decimal") : undefined} onChange={(event) => onChange(event.target.value)} />}
    </Field>
  );
}

/// What a form has no field for. What is typed is sent as soon as it is JSON.
function JsonField({ label, field, value, onChange }: { label: string; field: FormFieldOf; value: string; onChange: (typed: string) => void }) {
  const [typed, setTyped] = useState<string | null>(null);
  const isWrong = typed !== null && !isJson(typed) && typed.trim() !== "";
  return (
    <Field label={label} hint={`JSON${field.hint ? `; ${field.hint}` : field.required ? "" : "; may be left empty"}${isWrong ? "; this is none yet" : ""}`}>
      <textarea className={css.input} rows={3} value={typed ?? value} required={field.required} spellCheck={false} aria-invalid={isWrong}
        ref={(area) => area?.setCustomValidity(isWrong ? "not JSON yet" : "")}
        onChange={(event) => {
          setTyped(event.target.value);
          if (event.target.value.trim() === "" || isJson(event.target.value)) onChange(event.target.value);
        }} />
    </Field>
  );
}
