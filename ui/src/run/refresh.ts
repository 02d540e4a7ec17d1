import { useQueryClient } from "@tanstack/react-query";

/// Asks again for a run and for lists of runs, after something was done to it.
export function useRefresh(id: string) {
  const client = useQueryClient();
  return () => Promise.all([client.invalidateQueries({ queryKey: ["run", id] }), client.invalidateQueries({ queryKey: ["runs"] })]);
}
