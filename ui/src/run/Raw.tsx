// The run and its journal as the API has them, to copy; and as a file, which `outlast show --file`, `outlast check` and the page
// /runs/import read.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type MouseEvent, useState } from "react";
import { api, data } from "../api/client";
import { config } from "../app/config";
import { useMe } from "../app/Shell";
import { BRIEF } from "../lib/payload";
import type { Run } from "../lib/state";
import { JsonView } from "../parts/JsonView";
import { css as parts, download, Problem } from "../parts/parts";
import css from "./run.module.css";

/// So many entries of a journal are shown: nobody reads more of them as JSON.
const MOST = 200;

export function RawTab({ run }: { run: Run }) {
  const journal = useQuery({
    queryKey: ["run", run.id, "journal"],
    queryFn: ({ signal }) => data(api.GET("/api/v1/runs/{id}/history", { params: { path: { id: run.id }, query: { limit: MOST, preview: BRIEF } }, signal })),
    placeholderData: undefined,
  });
  const [refused, setRefused] = useState<unknown>(null);
  return (
    <>
      <div className={css.bar2}>
        <Export id={run.id} onRefused={setRefused} />
        <span className={parts.muted}>To be looked at elsewhere: <code>outlast show --file {run.id}.json</code>, or <Link to={"/runs/import" as string}>drop it here</Link>.</span>
      </div>
      <Problem error={refused} />
      <section><h2>Run</h2><JsonView value={run} name="run" /></section>
      <section>
        <h2>Journal</h2>
        <Problem error={journal.error} />
        {journal.data && <JsonView value={journal.data.items} name="journal" />}
        {journal.data?.next_after != null && <p className={parts.muted}>These are the first {MOST} entries: download it for the rest.</p>}
      </section>
    </>
  );
}

/// Where values are hidden the server gives the file to admins alone, and nobody else knows whether they are: others ask for it here, and are told
/// why not, instead of being left with a file that says so. An admin's comes as a stream, however long it is.
function Export({ id, onRefused }: { id: string; onRefused: (error: unknown) => void }) {
  const isAdmin = (useMe().data?.capabilities as string[] | undefined)?.includes("admin");
  const name = `${id}.json`;
  const ask = async (event: MouseEvent) => {
    event.preventDefault();
    onRefused(null);
    try {
      download(name, (await data(api.GET("/api/v1/runs/{id}/export", { params: { path: { id } }, parseAs: "text" }))) as unknown as string);
    } catch (error) {
      onRefused(error);
    }
  };
  return <a className={parts.button} href={`${config.base}api/v1/runs/${id}/export`} download={name} onClick={isAdmin ? undefined : (event) => void ask(event)}>Download with its journal</a>;
}
