// What somebody is always refused whose token is bound to a tenant or to queues: it is neither offered nor asked for. The API decides (`shared`
// and `by_queue` of its routes), and this only knows it beforehand.

export interface Bound {
  tenant?: string | null;
  queues?: string[] | null;
}

/// What all tenants share is not for whoever is bound to one, and what is about more than single queues not for whoever is bound to some.
const REFUSED = {
  errors: ["queues"],
  schedules: ["queues"],
  bulk: ["queues"],
  queues: ["tenant"],
  nodes: ["tenant", "queues"],
  system: ["tenant", "queues"],
} as const satisfies Record<string, (keyof Bound)[]>;
export type Thing = keyof typeof REFUSED;

export function reaches(bound: Bound, thing: Thing): boolean {
  return REFUSED[thing].every((to) => bound[to] == null);
}

/// What somebody is bound to, in words: `tenant acme, queue mail`.
export function boundTo({ tenant, queues }: Bound): string {
  return [tenant != null && `tenant ${tenant}`, queues != null && `${queues.length === 1 ? "queue" : "queues"} ${queues.join(", ")}`].filter(Boolean).join(", ");
}
