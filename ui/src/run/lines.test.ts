import { describe, expect, it } from "vitest";
import { firstLines, PAGE } from "./lines";

/// The log of a run of so many lines, as the API pages it: it counts them all, and sends those of one step.
function log(size: number, isOf: (nth: number) => boolean) {
  const asked: number[] = [];
  const page = async (after: number) => {
    asked.push(after);
    const next_after = Math.min(size, after + PAGE);
    return { items: Array.from({ length: next_after - after }, (_, at) => after + at).filter(isOf), next_after };
  };
  return { page, asked };
}
const any = () => true;

describe("the lines of a step", () => {
  it("are found behind those of other steps", async () => {
    const { page } = log(3500, (nth) => nth >= 3200 && nth < 3203);
    expect(await firstLines(100, page)).toEqual({ lines: [3200, 3201, 3202], isAll: true });
  });
  it("are no more than wanted, and say so", async () => {
    const { page, asked } = log(5000, any);
    const { lines, isAll } = await firstLines(100, page);
    expect([lines.length, isAll, asked]).toEqual([100, false, [0]]);
  });
  it("are all there where they are just as many as wanted", async () => {
    expect((await firstLines(100, log(100, any).page)).isAll).toBe(true);
    expect((await firstLines(100, log(101, any).page)).isAll).toBe(false);
  });
});
