// The first lines that one step logged. The API counts the lines of the run before it leaves out those of other steps, so
// those of a late step are behind pages without any.
export const PAGE = 1000;

interface Page<Line> {
  items: Line[];
  next_after: number;
}

/// The first so many of them, and whether it is known that there are no others.
export async function firstLines<Line>(wanted: number, page: (after: number) => Promise<Page<Line>>): Promise<{ lines: Line[]; isAll: boolean }> {
  const lines: Line[] = [];
  for (let after = 0; ; ) {
    const { items, next_after: next } = await page(after);
    lines.push(...items);
    // Lines of others are counted and not sent: only a page that got no further is the last.
    const isLast = next - after < PAGE;
    if (isLast || lines.length >= wanted) return { lines: lines.slice(0, wanted), isAll: isLast && lines.length <= wanted };
    after = next;
  }
}
