// Who looks, and what they may do.
import { queryOptions } from "@tanstack/react-query";
import { api, data } from "../api/client";

export const ME = queryOptions({ queryKey: ["me"], queryFn: () => data(api.GET("/api/v1/me")), staleTime: 60_000 });
