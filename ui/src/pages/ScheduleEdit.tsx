// Another time, another input: a schedule as somebody wants it from now on.
import { queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { changes } from "../lib/changes";
import { isJson } from "../lib/form";
import { hasHidden, parse, write } from "../lib/json";
import { hasFields, unlessDone } from "../lib/meanwhile";
import { Ask, Field, ReasonField } from "../parts/Ask";
import { JsonText } from "../parts/FormField";
import { css, Hidden, Loading, Problem } from "../parts/parts";

type Schedule = Schemas["Schedule"];

const OVERLAPS = ["skip", "queue", "allow", "cancel_previous"];
const CATCH_UPS = ["last", "skip", "all"];

/// As it was when somebody began to write, and by what it is known that nobody else has changed it since. It stays so whatever comes live:
/// the fields are what it was then, and behind a newer tag they would be written over what somebody else has said meanwhile.
export function editOf(name: string) {
  return queryOptions({
    queryKey: ["schedules", name, "edit"],
    queryFn: async () => {
      const { data: schedule, response } = await api.GET("/api/v1/schedules/{name}", { params: { path: { name } } });
      return { schedule: schedule!, etag: response.headers.get("etag") };
    },
    staleTime: "static", gcTime: 0, placeholderData: undefined, retry: false,
  });
}

export function EditDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const before = useQuery(editOf(name));
  if (before.data) return <Fields schedule={before.data.schedule} etag={before.data.etag} onClose={onClose} />;
  return <Ask title={`Edit ${name}`} action="…" disabled onDo={async () => {}} onClose={onClose}><Problem error={before.error} />{!before.error && <Loading />}</Ask>;
}

function Fields({ schedule, etag, onClose }: { schedule: Schedule; etag: string | null; onClose: () => void }) {
  const client = useQueryClient();
  const before = { expression: schedule.expression, zone: schedule.zone, overlap: schedule.overlap, catch_up: schedule.catch_up, input: write(schedule.input ?? null, 2) };
  const [asked, setAsked] = useState(before);
  const set = (name: keyof typeof asked) => (event: { target: { value: string } }) => setAsked({ ...asked, [name]: event.target.value });
  const [reason, setReason] = useState("");
  // What is not sent stays: also what is not shown here, and an input that whoever asks may not see.
  const { input, ...rest } = changes(before, asked);
  const hides = input !== undefined && hasHidden(input);
  const act = async () => {
    const fields = { ...rest, ...(input !== undefined && { input: parse(input) }) };
    const headers = etag ? { "if-match": etag } : {};
    const params = { path: { name: schedule.name } };
    await unlessDone(() => api.PUT("/api/v1/schedules/{name}", { params, headers, body: { ...fields, reason: reason || undefined } as never }), async () => (await data(api.GET("/api/v1/schedules/{name}", { params }))) as Schedule, (now) => hasFields(now, fields));
    await client.invalidateQueries({ queryKey: ["schedules"] });
  };
  const choice = (name: "overlap" | "catch_up", label: string, all: string[]) => (
    <Field label={label}><select className={css.input} value={asked[name]} onChange={set(name)}>{all.map((one) => <option key={one}>{one}</option>)}</select></Field>
  );
  return (
    <Ask title={`Edit ${schedule.name}`} action="Save" disabled={hides || !isJson(asked.input) || !asked.expression.trim()} onDo={act} onClose={onClose}>
      <p className={css.muted}>It counts from its next time on. A schedule that code declares is as its code says again when that code is started.</p>
      <Field label="When" hint="30 2 * * *, @daily, every 15m, at 2027-03-14T01:30:00Z"><input className={css.input} value={asked.expression} required onChange={set("expression")} /></Field>
      <Field label="Zone" hint="in which that is meant"><input className={css.input} value={asked.zone} onChange={set("zone")} /></Field>
      {choice("overlap", "While the run before goes on", OVERLAPS)}
      {choice("catch_up", "Times that were missed", CATCH_UPS)}
      <JsonText label="Input" text={asked.input} onChange={(input) => setAsked({ ...asked, input })} />
      {hides && <Hidden />}
      <ReasonField value={reason} onChange={setReason} />
    </Ask>
  );
}
