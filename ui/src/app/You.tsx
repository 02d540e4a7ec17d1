// Who looks: what they may not do and what they are bound to, said at the top of every page, and the way out.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { signOut } from "../api/client";
import { ME } from "../lib/me";
import { boundTo } from "../lib/reach";
import { css as parts } from "../parts/parts";
import css from "./shell.module.css";

/// In a line: the name, the role, what it is bound to.
export function useWho(): string | undefined {
  const me = useQuery(ME).data;
  return me && [me.actor, me.role, boundTo(me) && `bound to ${boundTo(me)}`].filter(Boolean).join(", ");
}

/// Says so to whoever may only look, or sees only a part, instead of leaving them to wonder where the rest is.
export function Limits() {
  const me = useQuery(ME).data;
  if (!me) return null;
  const isReader = !(me.capabilities as string[]).includes("operate");
  const bound = boundTo(me);
  const shown = [isReader && "read-only", bound].filter(Boolean).join(", ");
  if (!shown) return null;
  const title = `${me.actor} is a ${me.role}: ${[bound ? `sees what is of ${bound}` : "sees everything", isReader && "changes nothing"].filter(Boolean).join(", ")}.`;
  return <span className={`${parts.chip} ${parts.grey} ${css.limits}`} title={title}>{shown}</span>;
}

/// For whoever came with a token: what they were shown goes with them.
export function SignOut() {
  const client = useQueryClient();
  const me = useQuery(ME).data;
  if (!me?.token) return null;
  const leave = async () => {
    await signOut();
    await client.resetQueries();
  };
  return <button type="button" className={parts.button} onClick={() => void leave()}>Sign out</button>;
}
