// Changes that hold only where nobody has made another meanwhile. Where the answer to one was lost, and somebody presses again, the one who has
// changed it meanwhile may be they themselves.
import { ApiError, type Schemas } from "../api/client";
import { write } from "./json";

const CHANGED = 412;

/// Sends it. Where it is refused because something was changed meanwhile, and stands as it was asked to, it is done.
export async function unlessDone<T>(send: () => Promise<unknown>, look: () => Promise<T>, isAsAsked: (now: T) => boolean): Promise<void> {
  try {
    await send();
  } catch (error) {
    if (!(error instanceof ApiError && error.status === CHANGED)) throw error;
    // Whoever cannot look says what they know.
    const now = await look().catch(() => undefined);
    if (now === undefined || !isAsAsked(now)) throw error;
  }
}

type Rules = Schemas["Rules"];

/// Whether a queue has these rules. What is left away is not limited.
export function hasRules({ own_rules: isOwn, rules }: Pick<Schemas["Queue"], "own_rules" | "rules">, asked: Rules): boolean {
  const told = ({ limit, per_node, per_group, rate, rate_per_group, fair, ordered }: Rules) =>
    write([limit, per_node, per_group, rate?.count, rate?.per_ms, rate_per_group?.count, rate_per_group?.per_ms, fair, ordered].map((one) => one ?? null));
  return isOwn && told(rules) === told(asked);
}

/// Whether a schedule is in everything that was asked of it as it was asked; nothing is said of the rest.
export function hasFields(schedule: Schemas["Schedule"], asked: Partial<Schemas["Schedule"]>): boolean {
  return Object.entries(asked).every(([name, value]) => write(schedule[name as keyof typeof schedule] ?? null) === write(value ?? null));
}
