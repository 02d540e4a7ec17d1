// The lists of runs that everybody wants, as words of the filter.
import { GROUPS } from "./filter";

function of(group: keyof typeof GROUPS): string {
  return `status:${GROUPS[group].join()}`;
}

/// Names and words. `actor` is who looks: what they started is theirs.
export function shortcuts(actor?: string): [string, string][] {
  return [
    ["All", ""],
    ["Active", of("active")],
    ["Waiting", of("waiting")],
    ["Done", of("done")],
    ["Failed", of("failed")],
    ["Running", "status:running,undoing"],
    ["Stuck", "stuck:5m"],
    ["Need somebody", "status:paused,blocked,undo_failed"],
    ["Failed 24 h", "status:failed ended:24h"],
    ...(actor ? [["Mine", `owner:${JSON.stringify(actor)}`] as [string, string]] : []),
  ];
}
