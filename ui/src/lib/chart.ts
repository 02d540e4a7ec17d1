// Numbers of a chart: where bars and lines go, without a browser.

export interface Stack {
  /// From the bottom up, each with its share of the height.
  parts: number[];
  total: number;
}

/// A number that people like to read on an axis, not below the greatest value.
export function ceiling(greatest: number): number {
  if (!(greatest > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(greatest));
  const step = [1, 2, 5, 10].find((step) => step * power >= greatest) ?? 10;
  return step * power;
}

/// Stacks as shares of the tallest.
export function stacks(rows: number[][]): { stacks: Stack[]; top: number } {
  const totals = rows.map((row) => row.reduce((sum, value) => sum + Math.max(0, value), 0));
  const top = ceiling(Math.max(0, ...totals));
  return { top, stacks: rows.map((row, at) => ({ parts: row.map((value) => Math.max(0, value) / top), total: totals[at]! })) };
}

/// A line through the values that are there, in a box of 100 by 100 with the origin at its top left. Where there is none
/// the line has a gap; a value alone between gaps is a short dash.
export function line(values: (number | null)[], top: number): string {
  const width = 100 / Math.max(1, values.length);
  const at = (index: number) => (index + 0.5) * width;
  const height = (value: number) => 100 - (100 * Math.max(0, value)) / top;
  let path = "";
  let isOpen = false;
  values.forEach((value, index) => {
    if (value === null) {
      isOpen = false;
      return;
    }
    const y = height(value).toFixed(2);
    if (isOpen) path += `L${at(index).toFixed(2)} ${y}`;
    else path += `M${(at(index) - width * 0.2).toFixed(2)} ${y}L${at(index).toFixed(2)} ${y}`;
    isOpen = true;
  });
  return path;
}

/// The same in fewer spans: neighbours are added up.
export function fold(values: number[], spans: number): number[] {
  const size = Math.max(1, Math.ceil(values.length / spans));
  return Array.from({ length: Math.ceil(values.length / size) }, (_, at) => values.slice(at * size, (at + 1) * size).reduce((sum, value) => sum + value, 0));
}

/// So many spans the server counts failures in, at most, and none shorter than a minute.
const SPANS = 30;
const MINUTE = 60_000;

export interface Span {
  /// When it began.
  at: number;
  count: number;
}

/// Counts that came without times, oldest first, with those in which the server counted them: from the minute in which the range began.
export function spansOf(counts: number[], range: number, now: number): { spans: Span[]; step: number } {
  const from = Math.floor((now - range) / MINUTE) * MINUTE;
  const step = Math.max(MINUTE, (now - from) / SPANS);
  const places = Math.min(SPANS, Math.floor((now - from) / step) + 1);
  return { step, spans: Array.from({ length: places }, (_, at) => ({ at: from + at * step, count: counts[at] ?? 0 })) };
}
