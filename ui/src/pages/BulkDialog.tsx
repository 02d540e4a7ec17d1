// One thing done to all runs that fit: first what would happen to how many, then a reason, then it.
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { bulkWords, type Term } from "../lib/filter";
import { Ask, Field, ReasonField } from "../parts/Ask";
import { css, Problem } from "../parts/parts";

const OPS = ["cancel", "pause", "resume", "retry", "kill"];
const NEEDS_REASON = ["cancel", "pause", "kill"];

export function BulkDialog({ terms, first = "cancel", onClose }: { terms: Term[]; first?: string; onClose: () => void }) {
  const navigate = useNavigate();
  const [op, setOp] = useState(first);
  const [reason, setReason] = useState("");
  const filter = bulkWords(terms);
  const ask = (dryRun: boolean) => ({
    op, filter: filter ?? "", all: !terms.length, dry_run: dryRun,
    reason: NEEDS_REASON.includes(op) ? (dryRun ? "preview" : reason) : undefined,
  });
  const preview = useQuery({
    queryKey: ["bulk", "preview", op, filter],
    queryFn: async () => (await data(api.POST("/api/v1/bulk", { body: ask(true) as never }))) as Schemas["BulkPreview"],
    enabled: filter !== null,
    placeholderData: undefined,
    retry: false,
  });
  const start = async () => {
    const made = (await data(api.POST("/api/v1/bulk", { body: ask(false) as never }))) as Schemas["Bulk"];
    void navigate({ to: `/bulk/${made.id}` as string });
  };
  const found = preview.data;
  const count = found ? found.acts.toLocaleString("en") + (found.is_all ? "" : "+") : "…";
  return (
    <Ask title="Act on all runs that fit" action={found ? `${op[0]!.toUpperCase()}${op.slice(1)} ${count} runs` : "…"} danger={op === "kill" || op === "cancel"} disabled={!found?.acts} onDo={start} onClose={onClose}>
      <p>Which: <code>{terms.length ? (filter ?? "") : "all runs"}</code></p>
      {filter === null && <Problem error={new Error("A bulk cannot be narrowed by an id, or by values with spaces: leave that away.")} />}
      <Field label="What">
        <select className={css.input} value={op} onChange={(event) => setOp(event.target.value)}>
          {OPS.map((one) => <option key={one}>{one}</option>)}
        </select>
      </Field>
      <Problem error={preview.error} />
      {found && (
        <div>
          <p><strong>{count}</strong> would change{found.stays ? `, ${found.stays.toLocaleString("en")} stay as they are` : ""}. For example:</p>
          <ul>{found.runs.slice(0, 5).map((run) => <li key={run.run}>{run.definition} {run.key ?? `…${run.run.slice(-8)}`} <span className={css.muted}>({run.status})</span></li>)}</ul>
        </div>
      )}
      {NEEDS_REASON.includes(op) && <ReasonField value={reason} onChange={setReason} required />}
    </Ask>
  );
}
