// Payloads of a run as they are asked for: how they begin, for whoever looks; whole, for whoever works with them.
import { queryOptions, useQuery } from "@tanstack/react-query";
import { api, data, type Schemas } from "../api/client";
import { config } from "../app/config";
import { write } from "./json";
import type { Run } from "./state";

/// So much of each comes with a run, its steps and its history: nobody looks at all of them at once.
export const BRIEF = 4096;
/// So much of one is shown, in bytes.
const MOST = 64 * 1024;

export type Preview = Schemas["Preview"];

/// Where all of it is, as a file. `of` says which: input, output, entry:12, step:charge.
export function fileOf(run: string, of: string): string {
  return `${config.base}api/v1/runs/${encodeURIComponent(run)}/payload?of=${encodeURIComponent(of)}`;
}

export function previewOf(run: string, of: string) {
  return queryOptions({
    queryKey: ["run", run, "payload", of],
    queryFn: async ({ signal }) => (await data(api.GET("/api/v1/runs/{id}/payload", { params: { path: { id: run }, query: { of, preview: MOST } }, signal }))) as Preview,
    placeholderData: undefined,
  });
}

/// All of it, as it was written.
export async function wholeOf(run: string, of: string): Promise<string> {
  // Not read and written again: what is longer than a page is not worth being taken apart.
  return (await data(api.GET("/api/v1/runs/{id}/payload", { params: { path: { id: run }, query: { of } }, parseAs: "text" }))) as unknown as string;
}

/// The input of a run as text, to be changed: all of it, also where it is too long to have come with the run. What a run was called with is
/// never another.
export function useInput(run: Pick<Run, "id" | "input" | "previews" | "omitted"> | undefined) {
  const isLong = !!run?.previews?.input || !!run?.omitted?.includes("input");
  const whole = useQuery({ queryKey: ["payload", run?.id, "input"], queryFn: () => wholeOf(run!.id, "input"), enabled: isLong, staleTime: "static", placeholderData: undefined });
  return { text: isLong ? whole.data : run && write(run.input ?? null, 2), error: whole.error };
}
