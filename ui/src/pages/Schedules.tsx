// Schedules: when runs start by themselves, in both zones, and what people do about it.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Once, type Schemas } from "../api/client";
import { useMay } from "../app/Shell";
import { useShown } from "../lib/shown";
import { STATES, stateOf } from "../lib/state";
import { LOOK } from "../lib/first";
import { EVERY } from "../lib/sums";
import { absolute, inZone, isSame, millis } from "../lib/time";
import { useUtc } from "../lib/zone";
import { Ask, ReasonField } from "../parts/Ask";
import { css, Head, Loading, Problem, Time, useNow, WhenSeen } from "../parts/parts";

type Schedule = Schemas["Schedule"];
type Act = "pause" | "resume" | "trigger";
const MEANS: Record<Act, string> = {
  pause: "It starts nothing until it is resumed.",
  resume: "It goes on with its next time.",
  trigger: "A run of it starts now, beside its times.",
};
/// So many of its last runs are shown.
const STRIP = 20;
/// A schedule that should have fired this long ago is late.
const LATE = 30_000;

export function SchedulesPage() {
  const may = useMay("operate");
  const { open } = useSearch({ strict: false }) as { open?: string };
  const navigate = useNavigate();
  const toggle = (name: string) => void navigate({ to: "/schedules" as string, search: { open: open === name ? undefined : name } as never, replace: true });
  const asked = useQuery({ queryKey: ["schedules"], queryFn: () => data(api.GET("/api/v1/schedules")), refetchInterval: EVERY });
  const schedules = useShown(asked);
  return (
    <>
      <Head title="Schedules" />
      <Problem error={schedules.error} />
      {schedules.isPending ? <Loading /> : (
        <div className={`${css.card} ${css.scroll}`}>
          <table className={css.table}>
            <thead>
              <tr><th>Name</th><th>Starts</th><th>When</th><th>Next</th><th>Last runs</th><th className={css.num}>Started</th><th className={css.num}>Skipped</th><th>Overlap, missed</th>{may && <th className={css.num}>Actions</th>}</tr>
            </thead>
            <tbody>
              {schedules.data?.items.map((one) => (
                <Row key={one.name} schedule={one} late={isLate(one, asked.dataUpdatedAt)} may={may} isOpen={open === one.name} onOpen={() => toggle(one.name)} />
              ))}
            </tbody>
          </table>
          {!schedules.data?.items.length && !schedules.error && <div className={css.empty}><h2>No schedules</h2><p>Code registers them: <code>.schedule(Schedule::cron("nightly", "0 3 * * *"), &job, input)</code></p></div>}
        </div>
      )}
    </>
  );
}

/// Whether it should have fired a while before the server told of it: an old answer makes nothing late.
export function isLate(schedule: Schedule, told: number): boolean {
  const next = millis(schedule.next_at);
  return !schedule.paused && next !== null && told - next > LATE;
}

/// Trigger, pause and resume, each with what it means.
export function ScheduleActs({ schedule, small = false }: { schedule: Schedule; small?: boolean }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const [asked, setAsked] = useState<Act | null>(null);
  const [reason, setReason] = useState("");
  const act = async (what: Act, once: Once) => {
    const asking = { params: { path: { name: schedule.name } }, body: { reason: reason || undefined } };
    if (what === "trigger") {
      const { id } = await data(once.POST("/api/v1/schedules/{name}/trigger", asking));
      void navigate({ to: `/runs/${id}` as string });
    } else await data(once.POST(`/api/v1/schedules/{name}/${what}` as "/api/v1/schedules/{name}/pause", asking));
    await client.invalidateQueries({ queryKey: ["schedules"] });
  };
  const word = (what: Act) => what[0]!.toUpperCase() + what.slice(1);
  return (
    <>
      {(["trigger", schedule.paused ? "resume" : "pause"] as Act[]).map((what) => (
        <button key={what} type="button" className={`${css.button} ${small ? css.small : ""}`} aria-label={`${word(what)} ${schedule.name}`} onClick={() => setAsked(what)}>{word(what)}</button>
      ))}
      {asked && <Ask title={`${word(asked)} ${schedule.name}?`} action={word(asked)} onClose={() => (setAsked(null), setReason(""))} onDo={(once) => act(asked, once)}><p>{MEANS[asked]}</p><ReasonField value={reason} onChange={setReason} /></Ask>}
    </>
  );
}

function Row({ schedule, late, may, isOpen, onOpen }: { schedule: Schedule; late: boolean; may: boolean; isOpen: boolean; onOpen: () => void }) {
  return (
    <>
      <tr>
        <td className={css.named}><button type="button" className={css.bare} aria-expanded={isOpen} aria-label={`Next times of ${schedule.name}`} onClick={onOpen}>{isOpen ? "▾" : "▸"}</button> <Link to={"/schedules/$name" as string} params={{ name: schedule.name } as never}>{schedule.name}</Link></td>
        <td><Link to={"/definitions/$name" as string} params={{ name: schedule.definition } as never}>{schedule.definition}</Link></td>
        <td className={css.named}>{schedule.description}{schedule.zone && schedule.zone !== "UTC" && !schedule.description.includes(schedule.zone) ? <span className={css.muted}> {schedule.zone}</span> : null}<div className={`${css.muted} ${css.mono}`}>{schedule.expression}</div></td>
        <td className={css.nowrap}>
          {schedule.paused ? <span className={`${css.chip} ${css.grey}`}><i aria-hidden="true">❚❚</i>paused</span> : <Time at={schedule.next_at} />}
          {late && <span className={`${css.chip} ${css.amber}`}>late</span>}
        </td>
        <td>{schedule.last_run ? <Link to={`/runs/${schedule.last_run}` as string}><Time at={schedule.last_at} /></Link> : <span className={css.muted}>–</span>}<WhenSeen><Strip name={schedule.name} /></WhenSeen></td>
        <td className={css.num}>{schedule.started.toLocaleString("en")}</td>
        <td className={css.num}>{schedule.skipped.toLocaleString("en")}</td>
        <td className={css.muted}>{schedule.overlap}, {schedule.catch_up}</td>
        {may && <td><div className={css.actions}><ScheduleActs schedule={schedule} small /></div></td>}
      </tr>
      {isOpen && <tr><td colSpan={may ? 9 : 8}><Next name={schedule.name} zone={schedule.zone} /></td></tr>}
    </>
  );
}

/// What a schedule started, at its times and when somebody triggered it: its name is a tag of theirs.
export function startedBy(name: string): { tag: string[] } {
  return { tag: [`schedule=${name}`] };
}

/// How the last runs that it started ended, oldest first.
export function Strip({ name, none = null }: { name: string; none?: string | null }) {
  const now = useNow();
  const runs = useQuery({
    queryKey: [LOOK, "strip", name],
    queryFn: ({ signal }) => data(api.GET("/api/v1/runs", { params: { query: { ...startedBy(name), limit: STRIP } as never }, signal })),
    refetchInterval: EVERY, staleTime: EVERY, placeholderData: undefined, retry: false,
  });
  const last = (runs.data?.items ?? []).toReversed();
  if (!last.length) return none;
  return (
    <span className={css.strip}>
      {last.map((run) => {
        const state = stateOf(run, now);
        return <Link key={run.id} to={`/runs/${run.id}` as string} data-state={state} title={`${state}, ${run.key ?? "triggered"}`} aria-label={`${state}, ${run.key ?? "triggered"}`} style={{ color: `var(--${STATES[state].tone})` }} />;
      })}
    </span>
  );
}

/// The next times: in the schedule's own zone first, which is what it was written in, and here.
export function Next({ name, zone }: { name: string; zone: string }) {
  const utc = useUtc();
  const next = useQuery({
    queryKey: ["schedules", name, "next"],
    queryFn: () => data(api.GET("/api/v1/schedules/{name}/next", { params: { path: { name }, query: { n: 5 } } })),
    // The first of them passes, and another comes behind the last.
    refetchInterval: EVERY,
  });
  if (!next.data) return <Problem error={next.error} />;
  // Where clocks of both zones say the same, once is enough.
  const isHere = (time: string) => isSame(millis(time)!, zone, utc);
  return (
    <div style={{ padding: "8px 14px 8px 22px" }}>
      <ul>{next.data.times.map((time) => <li key={time}>{inZone(millis(time)!, zone) ?? absolute(millis(time)!, true)} {isHere(time) ? null : <span className={css.muted}>= {absolute(millis(time)!, utc)}{utc ? "" : " here"}</span>}</li>)}</ul>
      {next.data.notes.map((note) => <p key={note} className={css.muted}>{note}</p>)}
    </div>
  );
}
