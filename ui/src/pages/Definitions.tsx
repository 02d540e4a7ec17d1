// Definitions: what nodes know how to run, and a way to start one.
import { queryOptions, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, ApiError, data, type Once, type Schemas } from "../api/client";
import { useMay } from "../app/Shell";
import { fields, isJson } from "../lib/form";
import { hasHidden, parse, write } from "../lib/json";
import { LOOK } from "../lib/first";
import { useReach } from "../lib/me";
import { counted } from "../lib/number";
import { optionWords } from "../lib/options";
import { useInput } from "../lib/payload";
import { useShown } from "../lib/shown";
import { EVERY } from "../lib/sums";
import { about } from "../lib/time";
import { keepStartKey, startKey } from "../lib/kept";
import { Ask, Field, ReasonField } from "../parts/Ask";
import { Charts } from "../parts/Chart";
import { FormFields, JsonText } from "../parts/FormField";
import { css, Head, Hidden, Loading, Problem, Time, WhenSeen } from "../parts/parts";
import { Back, Facts, RunTable } from "../parts/RunTable";
import { ErrorTable } from "./Errors";
import { RangeSwitch, useRange } from "./Overview";

type Definition = Schemas["Definition"];
type Sums = Schemas["Summary"];

/// How many nodes know a version: none can run what nobody knows.
function useKnowing(): (of: { name: string; version: number }) => number | undefined {
  const reach = useReach();
  const nodes = useQuery({ queryKey: ["nodes"], queryFn: () => data(api.GET("/api/v1/nodes")), enabled: reach("nodes") === true, refetchInterval: 10_000, retry: false });
  return (of) => nodes.data?.items.filter((node) => node.codes.includes(`${of.name}@${of.version}`)).length;
}

/// How runs of a definition ended within a range.
function useSums(name: string, range: string) {
  return useQuery({ queryKey: ["stats", "summary", range, name], queryFn: () => data(api.GET("/api/v1/stats/summary", { params: { query: { range, def: name } } })), refetchInterval: EVERY, retry: false }).data;
}

/// Of those that ended by themselves, how many as they should.
function success(sums: { completed: number; failed: number } | undefined): string {
  const ended = sums ? sums.completed + sums.failed : 0;
  return ended ? `${((100 * sums!.completed) / ended).toFixed(1)} %` : "–";
}

function many(count: number | undefined): string {
  return count === undefined ? "–" : counted(count);
}

/// How well sums know how long something took.
const WITHIN = "Known within a factor of two.";

function took(ms: number | null | undefined): string {
  return ms == null ? "–" : about(ms);
}

export function DefinitionsPage() {
  const may = useMay("start");
  const range = useRange();
  const [starting, setStarting] = useState<string | null>(null);
  // A node that comes up may bring others, or newer ones.
  const definitions = useShown(useQuery({ queryKey: ["definitions"], queryFn: () => data(api.GET("/api/v1/definitions")), refetchInterval: EVERY }));
  const all = definitions.data?.items ?? [];
  const names = [...new Set(all.map((one) => one.name))];
  return (
    <>
      <Head title="Definitions"><RangeSwitch to="/definitions" /></Head>
      <Problem error={definitions.error} />
      {definitions.isPending ? <Loading /> : (
        <div className={`${css.card} ${css.scroll}`}>
          <table className={css.table}>
            <thead><tr><th>Name</th><th>Kind</th><th>Versions</th><th>Queue</th><th className={css.num}>Success in {range}</th><th className={css.num} title={`Half of those that ended took less. ${WITHIN}`}>p50</th><th className={css.num} title={`95 of 100 that ended took less. ${WITHIN}`}>p95</th><th>Last run</th><th>Options</th>{may && <th className={css.num}>Actions</th>}</tr></thead>
            <tbody>{names.map((name) => <Row key={name} versions={all.filter((one) => one.name === name)} range={range} onStart={may ? () => setStarting(name) : undefined} />)}</tbody>
          </table>
          {!names.length && !definitions.error && <div className={css.empty}>No node has told of any workflow or job yet.</div>}
        </div>
      )}
      {starting && <StartDialog name={starting} onClose={() => setStarting(null)} />}
    </>
  );
}

/// One definition with all its versions. What it is asked for with is what new runs have.
function Row({ versions, range, onStart }: { versions: Definition[]; range: string; onStart?: () => void }) {
  const one = versions.find((version) => version.active) ?? versions.at(-1)!;
  const known = useKnowing();
  const sum = (said: (sums: Sums | undefined) => string) => <WhenSeen><Sum name={one.name} range={range} said={said} /></WhenSeen>;
  return (
    <tr>
      <td><Link to={"/definitions/$name" as string} params={{ name: one.name } as never} search={{ range } as never}>{one.name}</Link></td>
      <td>{one.kind}</td>
      <td className={css.nowrap}>
        {versions.map((version, at) => {
          const [count, use] = [known(version), version.active ? "new runs have it" : "for the runs that have it"];
          const nodes = count === undefined ? "" : count === 1 ? "1 node" : `${counted(count)} nodes`;
          return <span key={version.version}>{at > 0 && ", "}<span title={`Version ${version.version}: ${use}; ${nodes} can run it`} className={version.active ? undefined : css.muted}>{version.version} <small className={count === 0 ? css.warn : css.muted}>{nodes}</small></span></span>;
        })}
      </td>
      <td><Link to={"/queues/$name" as string} params={{ name: one.queue } as never}>{one.queue}</Link></td>
      <td className={css.num}>{sum(success)}</td>
      <td className={`${css.num} ${css.nowrap}`}>{sum((sums) => took(sums?.p50_ms))}</td>
      <td className={`${css.num} ${css.nowrap}`}>{sum((sums) => took(sums?.p95_ms))}</td>
      <td><WhenSeen><LastRun name={one.name} /></WhenSeen></td>
      <td className={css.whole}><Options options={one.options} kind={one.kind} /></td>
      {onStart && <td><div className={css.actions}>{one.active && !one.name.startsWith("outlast.") && <button type="button" className={`${css.button} ${css.small}`} aria-label={`Start ${one.name}`} onClick={onStart}>Start…</button>}</div></td>}
    </tr>
  );
}

/// One of the numbers of how runs of a definition ended. They are asked for once, however many of them are shown.
function Sum({ name, range, said }: { name: string; range: string; said: (sums: Sums | undefined) => string }) {
  return said(useSums(name, range));
}

function LastRun({ name }: { name: string }) {
  const runs = useQuery({
    queryKey: [LOOK, "last", name],
    queryFn: ({ signal }) => data(api.GET("/api/v1/runs", { params: { query: { def: name, limit: 1 } as never }, signal })),
    refetchInterval: EVERY, staleTime: EVERY, placeholderData: undefined, retry: false,
  });
  const last = runs.data?.items[0];
  return last ? <Link to={`/runs/${last.id}` as string}><Time at={last.created_at} /></Link> : <span className={css.muted}>–</span>;
}

/// One definition: its versions, how its runs ended lately, and a way to start one.
export function DefinitionPage() {
  const { name } = useParams({ strict: false }) as { name: string };
  const { version } = useSearch({ strict: false }) as { version?: string };
  const may = useMay("start");
  const reach = useReach();
  const range = useRange();
  const [starting, setStarting] = useState(false);
  const query = { params: { query: { range, def: name } } };
  const found = useQuery({ queryKey: ["definitions", name], queryFn: () => data(api.GET("/api/v1/definitions/{name}", { params: { path: { name } } })), refetchInterval: EVERY });
  const known = useKnowing();
  const sums = useSums(name, range);
  const series = useQuery({ queryKey: ["stats", "series", range, "", name], queryFn: () => data(api.GET("/api/v1/stats/series", query)), refetchInterval: 5000 });
  const errors = useQuery({ queryKey: ["errors", "few", range, name], queryFn: () => data(api.GET("/api/v1/errors", query)), enabled: reach("errors") === true, refetchInterval: 5000 });
  if (!found.data?.items.length) {
    if (found.isPending) return <Loading />;
    if (found.error && !(found.error instanceof ApiError && found.error.status === 404)) return <Problem error={found.error} />;
    return <div className={css.empty}><h2>No node knows {name}</h2><p>Its runs are <Link to={"/runs" as string} search={{ def: name } as never}>in the list</Link>.</p></div>;
  }
  const isActive = found.data.items.some((one) => one.active);
  return (
    <>
      <Head title={<><Back to="/definitions" name="Definitions" search={{ range }} /> {name}</>} name={`${name}, definition`}>
        <RangeSwitch to="/definitions/$name" params={{ name }} />
        {may && isActive && !name.startsWith("outlast.") && <button type="button" className={`${css.button} ${css.primary}`} onClick={() => setStarting(true)}>Start…</button>}
      </Head>
      <Facts facts={[
        ["Running", many(sums?.running)], ["Queued", many(sums?.queued)], ["Waiting", many(sums?.waiting)],
        [`Completed in ${range}`, many(sums?.completed)], [`Failed in ${range}`, many(sums?.failed)],
        ["Success", success(sums)], ["Half within", took(sums?.p50_ms)], ["95 % within", took(sums?.p95_ms)],
      ]} />
      <Charts found={series} />
      <section className={`${css.card} ${css.scroll}`}>
        <table className={css.table}>
          <thead><tr><th>Kind</th><th className={css.num}>Version</th><th className={css.num}>Nodes</th><th>New runs</th><th>Queue</th><th className={css.num}>Priority</th><th>Options</th></tr></thead>
          <tbody>
            {found.data.items.map((one) => (
              <tr key={one.version} data-on={version === String(one.version)}>
                <td>{one.kind}</td><td className={css.num}><Link to={"/definitions/$name" as string} params={{ name } as never} search={((before: object) => ({ ...before, version: version === String(one.version) ? undefined : String(one.version) })) as never} title={version === String(one.version) ? "All versions" : `Runs of version ${one.version} alone`} aria-current={version === String(one.version)}>{one.version}</Link></td><td className={css.num}>{known(one)?.toLocaleString("en")}</td><td>{one.active ? "yes" : <span className={css.muted}>no</span>}</td>
                <td><Link to={"/queues/$name" as string} params={{ name: one.queue } as never}>{one.queue}</Link></td><td className={css.num}>{one.priority}</td><td className={css.whole}><Options options={one.options} kind={one.kind} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {!!errors.data?.items.length && <section className={`${css.card} ${css.scroll} ${css.section}`}><h2>Failures</h2><ErrorTable items={errors.data.items} /></section>}
      <RunTable title={version ? `Last runs of version ${version}` : "Last runs"} search={version ? { def: name, version } : { def: name }} />
      {starting && <StartDialog name={name} onClose={() => setStarting(false)} />}
    </>
  );
}

function Options({ options, kind }: { options: unknown; kind: string }) {
  return <span title={write(options, 2)} className={css.muted}>{optionWords(options, kind).join(", ") || "–"}</span>;
}

/// What the last run was called with is mostly what the next one wants: as it was when somebody opened the dialog. Runs come and end while they
/// read it, and what they start is what they have read.
export function lastOf(name: string) {
  return queryOptions({
    queryKey: ["runs", "last", name],
    queryFn: () => data(api.GET("/api/v1/runs", { params: { query: { def: name, limit: 1 } as never } })),
    staleTime: "static", gcTime: 0, placeholderData: undefined,
  });
}

/// What its input looks like: also as it was then. A node that comes up may know another form of it, and what was written into the fields of the
/// first stays where it is.
export function cardsOf(name: string) {
  return queryOptions({
    queryKey: ["definitions", "start", name],
    queryFn: () => data(api.GET("/api/v1/definitions/{name}", { params: { path: { name } } })),
    staleTime: "static", gcTime: 0, placeholderData: undefined,
  });
}

function StartDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const navigate = useNavigate();
  const [input, setInput] = useState<string | null>(null);
  // It stays: whoever starts again, because they do not know whether they have, starts nothing twice.
  const [key, setKey] = useState(startKey(name));
  const [reason, setReason] = useState("");
  const [there, setThere] = useState<string>();
  const last = useQuery(lastOf(name));
  const cards = useQuery(cardsOf(name));
  const card = cards.data?.items.find((one) => one.active);
  const form = fields((card?.options as { input_schema?: unknown } | undefined)?.input_schema);
  const [asJson, setAsJson] = useState(false);
  const before = useInput(last.data?.items[0]);
  // Until that is known nobody has said what to start it with, nor is it known how that is asked for.
  const isComing = cards.isPending || (input === null && (last.isPending || (before.text === undefined && !before.error && !!last.data?.items.length)));
  const text = input ?? before.text ?? (isComing ? "" : "null");
  const hides = hasHidden(text);
  const start = async (once: Once) => {
    const body = { definition: name, input: parse(text), key: key || undefined, reason: reason || undefined } as Schemas["StartRun"];
    const { id, created } = (await data(once.POST("/api/v1/runs", { body }))) as Schemas["Started"];
    setThere(created ? undefined : id);
    if (!created) throw new Error("Nothing was started: there is a run with this key.");
    void navigate({ to: `/runs/${id}` as string });
  };
  return (
    <Ask title={`Start ${name}`} action="Start" onDo={start} onClose={onClose} disabled={hides || isComing || !isJson(text)}>
      {form && !asJson
        ? <FormFields form={form} whole="Input" text={text} onChange={setInput} />
        : <JsonText label="Input" hint="that of the last run, if there was one" text={text} placeholder={isComing ? "That of the last run is on its way." : undefined} onChange={setInput} />}
      <Problem error={last.error ?? before.error} />
      {hides && <Hidden />}
      {form && <label className={css.check}><input type="checkbox" checked={asJson} onChange={(event) => setAsJson(event.target.checked)} /> as JSON</label>}
      <Field label="Key" hint="the same key never starts twice; it stays here until you change it"><input className={css.input} value={key} onChange={(event) => (setKey(event.target.value), keepStartKey(name, event.target.value))} /></Field>
      <ReasonField value={reason} onChange={setReason} />
      {there && <p>It is <Link to={`/runs/${there}` as string} className={css.mono}>…{there.slice(-8)}</Link>: choose another key for another run.</p>}
    </Ask>
  );
}
