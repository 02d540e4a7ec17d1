// One schedule: what it starts and when, what it started, and what people do about it.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { api, ApiError, data, looks, type Once, type Schemas } from "../api/client";
import { useMay } from "../app/Shell";
import { LOOK } from "../lib/first";
import { duration, fieldTime } from "../lib/time";
import { useUtc } from "../lib/zone";
import { Ask, Field, ReasonField } from "../parts/Ask";
import { Asked, HeldBy } from "../parts/Asked";
import { JsonView } from "../parts/JsonView";
import { Notices } from "../parts/Notices";
import { css, Head, Loading, Note, Problem, Time } from "../parts/parts";
import { Back, Facts, RunTable } from "../parts/RunTable";
import { EditDialog } from "./ScheduleEdit";
import { isLate, Next, ScheduleActs, startedBy, Strip } from "./Schedules";

type Schedule = Schemas["Schedule"];

export function SchedulePage() {
  const { name } = useParams({ strict: false }) as { name: string };
  const may = useMay("operate");
  const [asking, setAsking] = useState<"edit" | "backfill" | "delete" | null>(null);
  const [started, setStarted] = useState<number | null>(null);
  const found = useQuery({ queryKey: ["schedules", name], queryFn: () => data(api.GET("/api/v1/schedules/{name}", { params: { path: { name } } })), refetchInterval: 5000 });
  const one = found.data;
  if (!one) {
    if (found.error instanceof ApiError && found.error.status === 404) return <div className={css.empty}><h2>There is no schedule {name}</h2></div>;
    return found.error ? <Problem error={found.error} /> : <Loading />;
  }
  const close = () => setAsking(null);
  const late = isLate(one, found.dataUpdatedAt);
  return (
    <>
      <Head title={<><Back to="/schedules" name="Schedules" /> {one.name} {late && <span className={`${css.chip} ${css.amber}`}>late</span>}</>} name={`${one.name}, schedule`}>
        {may && <ScheduleActs schedule={one} />}
        {may && <button type="button" className={css.button} onClick={() => setAsking("edit")}>Edit…</button>}
        {may && <button type="button" className={css.button} onClick={() => (setStarted(null), setAsking("backfill"))}>Backfill…</button>}
        {may && <button type="button" className={`${css.button} ${css.danger}`} onClick={() => setAsking("delete")}>Delete…</button>}
      </Head>
      <div className={css.stack}>
        <Notices items={late ? [{ key: "late", note: <Note tone="amber"><span>It is late: it should have started a run <Time at={one.next_at} />.</span></Note> }] : []} />
        {one.paused && <HeldBy of="schedules" name={one.name} word="Paused" act="schedule.pause" others={["schedule.resume", "schedule.delete"]} />}
        {started !== null && <div role="status"><Note tone="blue"><span>{backfilled(started)}</span></Note></div>}
        <Facts facts={[
          ["When", <span key="w" title={one.expression}>{one.description}</span>], ["Expression", <code key="e">{one.expression}</code>], ["Zone", one.zone],
          ["Starts", <Link key="d" to={"/definitions/$name" as string} params={{ name: one.definition } as never}>{one.definition}</Link>], ["Queue", one.queue], ["Group", one.group], ["Priority", one.priority?.toString()], ["Tenant", one.tenant], ["Tags", Object.entries(one.tags).map(([tag, value]) => `${tag}=${value}`).join(", ")],
          ["Next", one.paused ? "paused" : <Time key="n" at={one.next_at} />], ["Last", one.last_run ? <Link key="l" to={`/runs/${one.last_run}` as string}><Time at={one.last_at} /></Link> : "never"],
          ["Last runs", <Strip key="s" name={one.name} none="–" />], ["Started", one.started.toLocaleString("en")], ["Skipped", one.skipped.toLocaleString("en")], ["While the run before goes on", one.overlap],
          ["Times that were missed", one.catch_up], ["Up to later", one.jitter_ms ? duration(one.jitter_ms) : null],
        ]} />
        <section className={css.card}><h2 style={{ padding: "12px 14px 0" }}>Next times</h2><Next name={one.name} zone={one.zone} /></section>
        <section><h2>Input</h2><JsonView value={one.input ?? null} name="input" /></section>
      </div>
      <RunTable title="Its runs" search={startedBy(one.name)} />
      <Asked of="schedules" name={one.name} />
      {asking === "edit" && <EditDialog name={one.name} onClose={close} />}
      {asking === "backfill" && <BackfillDialog schedule={one} onDone={setStarted} onClose={close} />}
      {asking === "delete" && <DeleteDialog schedule={one} onClose={close} />}
    </>
  );
}

/// A field's time, which is in the zone that was chosen, as the API wants it.
function timeOf(field: string, utc: boolean): string | undefined {
  const time = fieldTime(field, utc);
  return time === null ? undefined : new Date(time).toISOString();
}

/// What became of a backfill.
function backfilled(started: number): string {
  if (!started) return "No run was started: each of those times had one.";
  return `${started.toLocaleString("en")} ${started === 1 ? "run was" : "runs were"} started, for times that had none.`;
}

function BackfillDialog({ schedule, onDone, onClose }: { schedule: Schedule; onDone: (started: number) => void; onClose: () => void }) {
  const client = useQueryClient();
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const [reason, setReason] = useState("");
  const utc = useUtc();
  const body = { from: timeOf(from, utc), to: timeOf(to, utc) };
  const params = { path: { name: schedule.name } };
  const preview = useQuery({
    queryKey: ["schedules", schedule.name, "backfill", body.from, body.to],
    queryFn: () => data(looks.POST("/api/v1/schedules/{name}/backfill", { params, body: { ...body, dry_run: true } as never })),
    enabled: !!body.from && !!body.to, placeholderData: undefined, retry: false,
  });
  const act = async (once: Once) => {
    const made = await data(once.POST("/api/v1/schedules/{name}/backfill", { params, body: { ...body, reason: reason || undefined } as never }));
    onDone(made.started.length);
    await Promise.all([["runs"], [LOOK], ["schedules"]].map((queryKey) => client.invalidateQueries({ queryKey })));
  };
  const times = preview.data?.times;
  const zone = utc ? "(UTC)" : "(your zone)";
  return (
    <Ask title={`Backfill ${schedule.name}`} action={times ? `Start up to ${times.toLocaleString("en")} runs` : "Start runs"} disabled={!times} onDo={act} onClose={onClose}>
      <p className={css.muted}>A run starts for each time in the past that has none.</p>
      <Field label="From" hint={zone}><input className={css.input} type="datetime-local" step={1} value={from} onChange={(event) => setFrom(event.target.value)} /></Field>
      <Field label="Until before" hint={zone}><input className={css.input} type="datetime-local" step={1} value={to} onChange={(event) => setTo(event.target.value)} /></Field>
      <Problem error={preview.error} />
      {times !== undefined && <p><strong>{times.toLocaleString("en")}</strong> {times === 1 ? "time lies" : "times lie"} in it.</p>}
      <ReasonField value={reason} onChange={setReason} />
    </Ask>
  );
}

function DeleteDialog({ schedule, onClose }: { schedule: Schedule; onClose: () => void }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const [reason, setReason] = useState("");
  const act = async () => {
    await data(api.DELETE("/api/v1/schedules/{name}", { params: { path: { name: schedule.name }, query: { reason } } }));
    await client.invalidateQueries({ queryKey: ["schedules"] });
    void navigate({ to: "/schedules" as string });
  };
  return (
    <Ask title={`Delete the schedule ${schedule.name}?`} action="Delete" danger onDo={act} onClose={onClose}>
      <p>It starts nothing any more. The {schedule.started.toLocaleString("en")} runs that it started stay. One that code declares is there again when that code is started.</p>
      <ReasonField value={reason} onChange={setReason} required />
    </Ask>
  );
}
