// What can follow a field of the filter, where the server suggests nothing.

export interface Hint {
  value: string;
  /// What people call it, where the value itself tells nobody anything.
  label?: string;
}

interface Known {
  nodes: { id: string; name: string; host: string }[];
  definitions: { name: string; version: number }[];
  /// The definition that is asked for already.
  def?: string;
}

const EXAMPLES: Record<string, string[]> = { ended: ["1h", "24h", "7d"], since: ["1h", "24h", "7d", "all"], until: ["1h"], stuck: ["5m", "1h"] };

export function hintsOf(field: string, { nodes, definitions, def }: Known): Hint[] {
  if (field === "node") return nodes.map((node) => ({ value: node.id, label: `${node.name} on ${node.host}` }));
  if (field === "version") {
    const versions = definitions.filter((one) => !def || one.name === def).map((one) => one.version);
    return [...new Set(versions)].sort((a, b) => b - a).map((version) => ({ value: String(version) }));
  }
  return (EXAMPLES[field] ?? []).map((value) => ({ value }));
}
