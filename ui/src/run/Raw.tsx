// The run as the API has it, to copy; and as a file, which `outlast show --file`, `outlast check` and the page /runs/import read.
import { Link } from "@tanstack/react-router";
import { config } from "../app/config";
import type { Run } from "../lib/state";
import { JsonView } from "../parts/JsonView";
import { css as parts } from "../parts/parts";
import css from "./run.module.css";

export function RawTab({ run }: { run: Run }) {
  return (
    <>
      <div className={css.bar2}>
        <a className={parts.button} href={`${config.base}api/v1/runs/${run.id}/export`} download={`${run.id}.json`}>Download with its journal</a>
        <span className={parts.muted}>To be looked at elsewhere: <code>outlast show --file {run.id}.json</code>, or <Link to={"/runs/import" as string}>drop it here</Link>.</span>
      </div>
      <JsonView value={run} name="run" />
    </>
  );
}
