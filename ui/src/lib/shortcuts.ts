// The lists of runs that everybody wants, as words of the filter.

/// Names and words. `actor` is who looks: what they started is theirs.
export function shortcuts(actor?: string): [string, string][] {
  return [
    ["All", ""],
    ["Running", "status:running,undoing"],
    ["Queued", "status:ready"],
    ["Waiting", "status:waiting"],
    ["Stuck", "stuck:5m"],
    ["Need somebody", "status:paused,blocked,undo_failed"],
    ["Failed 24 h", "status:failed ended:24h"],
    ["Done", "status:completed,cancelled"],
    ...(actor ? [["Mine", `owner:${JSON.stringify(actor)}`] as [string, string]] : []),
  ];
}
