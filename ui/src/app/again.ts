// What is shown of something that changed is asked for again, and what is on its way is not given up for it: a run that goes
// on says so every 300 ms, and what takes longer than that would never arrive.
import type { Query, QueryClient, QueryKey } from "@tanstack/react-query";

/// Those whose answer may be from before the change: they are asked for once more when it is there.
const late = new WeakSet<Query>();

/// Asks again for everything whose key begins like this.
export function askAgain(client: QueryClient, queryKey: QueryKey = []) {
  for (const query of client.getQueryCache().findAll({ queryKey, type: "active", fetchStatus: "fetching" })) {
    if (late.has(query)) continue;
    late.add(query);
    const once = () => {
      late.delete(query);
      void client.invalidateQueries({ queryKey: query.queryKey, exact: true }, { cancelRefetch: false });
    };
    // This waits for what is on its way, and begins nothing.
    query.fetch().then(once, once);
  }
  void client.invalidateQueries({ queryKey }, { cancelRefetch: false });
}
