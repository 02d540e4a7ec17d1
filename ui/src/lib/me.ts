// Who looks, and what they may do.
import { queryOptions, useQuery } from "@tanstack/react-query";
import { api, data } from "../api/client";
import { reaches, type Thing } from "./reach";

export const ME = queryOptions({ queryKey: ["me"], queryFn: () => data(api.GET("/api/v1/me")), staleTime: 60_000 });

/// Whether whoever looks can be shown such a thing at all; nothing before it is known who they are. Where that cannot be had, whatever is
/// asked for says why.
export function useReach(): (thing: Thing) => boolean | undefined {
  const me = useQuery(ME);
  return (thing) => (me.data ? reaches(me.data, thing) : me.error ? true : undefined);
}
