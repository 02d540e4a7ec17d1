// How much room something takes, as people and `outlast doctor` say it.

const UNITS = ["B", "kB", "MB", "GB", "TB"];

/// How many bytes a text has where it is kept and sent: letters may have several.
export function sizeOf(text: string): number {
  return new TextEncoder().encode(text).length;
}

/// In the unit in which it is less than a thousand, with as many digits as tell something.
export function bytes(count: number): string {
  let [value, unit] = [Math.max(0, count), 0];
  while (value >= 999.5 && unit < UNITS.length - 1) [value, unit] = [value / 1000, unit + 1];
  return `${unit && value < 9.95 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

/// How large a payload is: in the unit of its limits.
export function size(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 * 1024 ? `${Math.round(bytes / 1024)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}
