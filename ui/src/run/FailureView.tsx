// What went wrong, in fields that people read: of a step, of a run, of many that failed alike.
import { Link } from "@tanstack/react-router";
import type { Schemas } from "../api/client";
import { JsonView } from "../parts/JsonView";
import { css as parts } from "../parts/parts";
import { toldOf } from "./failure";
import css from "./run.module.css";

/// `group` has others that failed alike.
export function FailureView({ error, group }: { error: Schemas["Error"]; group?: string }) {
  const { isOwn, type, message, causes, stack, rest } = toldOf(error);
  return (
    <div>
      <h3>Error{type && <> <code>{type}</code></>}{!isOwn && " of Outlast"}</h3>
      <div className={css.error}>{message}{group && <> <Link to={"/errors/$fp" as string} params={{ fp: group } as never}>others like it</Link></>}</div>
      {causes.length > 0 && <><h3>Because of</h3><ol className={css.causes}>{causes.map((cause, nth) => <li key={nth}>{cause}</li>)}</ol></>}
      {stack && <><h3>Stack</h3><pre className={css.trace} tabIndex={0}>{stack}</pre></>}
      {rest !== undefined && <><h3>What else it says</h3><JsonView value={rest} name="fields of the error" /></>}
      <details><summary className={parts.muted}>as it was recorded</summary><JsonView value={error.detail} name="error" /></details>
    </div>
  );
}
