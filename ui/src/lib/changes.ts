// What somebody changed of what they were shown: the rest is not sent, so that nothing is written over.

/// The fields that have another text than before.
export function changes<T extends Record<string, string>>(before: T, after: T): Partial<T> {
  return Object.fromEntries(Object.entries(after).filter(([name, text]) => text !== before[name])) as Partial<T>;
}
