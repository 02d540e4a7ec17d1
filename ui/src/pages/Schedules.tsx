// Schedules: when runs start by themselves, in both zones, and what people do about it.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { useMay } from "../app/Shell";
import { absolute, millis } from "../lib/time";
import { Ask } from "../parts/Ask";
import { css, Head, Loading, Problem, Time, useNow } from "../parts/parts";

type Schedule = Schemas["Schedule"];
type Act = "pause" | "resume" | "trigger";
const MEANS: Record<Act, string> = {
  pause: "It starts nothing until it is resumed.",
  resume: "It goes on with its next time.",
  trigger: "A run of it starts now, beside its times.",
};
/// A schedule that should have fired this long ago is late.
const LATE = 30_000;

export function SchedulesPage() {
  const may = useMay("operate");
  const client = useQueryClient();
  const navigate = useNavigate();
  const [asked, setAsked] = useState<[Act, Schedule] | null>(null);
  const [open, setOpen] = useState<string | null>(null);
  const schedules = useQuery({ queryKey: ["schedules"], queryFn: () => data(api.GET("/api/v1/schedules")), refetchInterval: 5000 });
  const act = async ([what, { name }]: [Act, Schedule]) => {
    const params = { params: { path: { name } } };
    if (what === "trigger") {
      const { id } = await data(api.POST("/api/v1/schedules/{name}/trigger", params));
      void navigate({ to: `/runs/${id}` as string });
    } else await data(api.POST(`/api/v1/schedules/{name}/${what}` as "/api/v1/schedules/{name}/pause", params));
    await client.invalidateQueries({ queryKey: ["schedules"] });
  };
  return (
    <>
      <Head title="Schedules" />
      <Problem error={schedules.error} />
      {schedules.isPending ? <Loading /> : (
        <div className={`${css.card} ${css.scroll}`}>
          <table className={css.table}>
            <thead>
              <tr><th>Name</th><th>Starts</th><th>When</th><th>Next</th><th>Last run</th><th className={css.num}>Started</th><th className={css.num}>Skipped</th><th>Overlap</th>{may && <th>Actions</th>}</tr>
            </thead>
            <tbody>
              {schedules.data?.items.map((one) => (
                <Row key={one.name} schedule={one} may={may} isOpen={open === one.name} onOpen={() => setOpen(open === one.name ? null : one.name)} onAsk={(what) => setAsked([what, one])} />
              ))}
            </tbody>
          </table>
          {!schedules.data?.items.length && !schedules.error && <div className={css.empty}><h2>No schedules</h2><p>Code registers them: <code>.schedule(Schedule::cron("nightly", "0 3 * * *"), &job, input)</code></p></div>}
        </div>
      )}
      {asked && (
        <Ask title={`${asked[0][0]!.toUpperCase()}${asked[0].slice(1)} ${asked[1].name}?`} action={asked[0][0]!.toUpperCase() + asked[0].slice(1)} onClose={() => setAsked(null)} onDo={() => act(asked)}>
          <p>{MEANS[asked[0]]}</p>
        </Ask>
      )}
    </>
  );
}

function Row({ schedule, may, isOpen, onOpen, onAsk }: { schedule: Schedule; may: boolean; isOpen: boolean; onOpen: () => void; onAsk: (what: Act) => void }) {
  const now = useNow();
  const next = millis(schedule.next_at);
  const late = next !== null && now - next > LATE;
  const button = (what: Act, word: string) => (
    <button type="button" className={`${css.button} ${css.small}`} aria-label={`${word} ${schedule.name}`} onClick={() => onAsk(what)}>{word}</button>
  );
  return (
    <>
      <tr>
        <td className={css.nowrap}><button type="button" className={css.bare} aria-expanded={isOpen} aria-label={`Next times of ${schedule.name}`} onClick={onOpen}>{isOpen ? "▾" : "▸"}</button> <strong>{schedule.name}</strong></td>
        <td><Link to={"/runs" as string} search={{ def: schedule.definition } as never}>{schedule.definition}</Link></td>
        <td title={schedule.expression}>{schedule.description}{schedule.zone && schedule.zone !== "UTC" ? <span className={css.muted}> {schedule.zone}</span> : null}</td>
        <td>
          {schedule.paused ? <span className={`${css.chip} ${css.grey}`}><i aria-hidden="true">❚❚</i>paused</span> : <Time at={schedule.next_at} />}
          {late && <span className={`${css.chip} ${css.amber}`}>late</span>}
        </td>
        <td>{schedule.last_run ? <Link to={`/runs/${schedule.last_run}` as string}><Time at={schedule.last_at} /></Link> : <span className={css.muted}>–</span>}</td>
        <td className={css.num}>{schedule.started.toLocaleString("en")}</td>
        <td className={css.num}>{schedule.skipped.toLocaleString("en")}</td>
        <td className={css.muted}>{schedule.overlap}</td>
        {may && <td><div className={css.actions}>{button("trigger", "Trigger")}{schedule.paused ? button("resume", "Resume") : button("pause", "Pause")}</div></td>}
      </tr>
      {isOpen && <tr><td colSpan={may ? 9 : 8}><Next name={schedule.name} /></td></tr>}
    </>
  );
}

function Next({ name }: { name: string }) {
  const next = useQuery({
    queryKey: ["schedules", name, "next"],
    queryFn: () => data(api.GET("/api/v1/schedules/{name}/next", { params: { path: { name }, query: { n: 5 } } })),
  });
  if (!next.data) return <Problem error={next.error} />;
  return (
    <div style={{ padding: "8px 0 8px 22px" }}>
      <ul>{next.data.times.map((time) => <li key={time}>{absolute(millis(time)!)} <span className={css.muted}>= {absolute(millis(time)!, true)}</span></li>)}</ul>
      {next.data.notes.map((note) => <p key={note} className={css.muted}>{note}</p>)}
    </div>
  );
}
