// The run as the API has it, to copy or to keep.
import { api, data } from "../api/client";
import { write } from "../lib/json";
import type { Run } from "../lib/state";
import { JsonView } from "../parts/JsonView";
import { css as parts, download } from "../parts/parts";
import css from "./run.module.css";

export function RawTab({ run }: { run: Run }) {
  const save = async () => {
    const journal: unknown[] = [];
    for (let after: number | null | undefined = 0; after !== null && after !== undefined; ) {
      const page: { items: unknown[]; next_after?: number | null } = await data(api.GET("/api/v1/runs/{id}/history", { params: { path: { id: run.id }, query: { after, limit: 1000 } } }));
      journal.push(...page.items);
      after = page.next_after;
    }
    download(`${run.id}.json`, write({ ...run, journal }, 2));
  };
  return (
    <>
      <div className={css.bar2}><button type="button" className={parts.button} onClick={() => void save()}>Download with its journal</button></div>
      <JsonView value={run} name="run" />
    </>
  );
}
