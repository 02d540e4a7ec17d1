// Times and durations for people. Durations are never negative: clocks differ, and a run that was picked up "in -2 s"
// is a bug report.

let skew = 0;
/// How far the server's clock is ahead, at least and at most.
let bounds: [number, number] = [-Infinity, Infinity];
/// A clock that is less than this off misleads nobody.
const LEAST = 1000;

/// Notes the server's clock. An answer tells it to the second, and that second was between the question and the answer:
/// each answer narrows down by how much the clocks differ.
export function noteServerDate(date: string | null, asked = Date.now(), now = Date.now()) {
  const server = date ? Date.parse(date) : NaN;
  const [low, high] = [server - now, server + 1000 - asked];
  if (!(low <= high)) return;
  const [lower, upper] = [Math.max(bounds[0], low), Math.min(bounds[1], high)];
  // What was known before is over where somebody has set a clock.
  bounds = lower <= upper ? [lower, upper] : [low, high];
  skew = bounds[0] > LEAST || bounds[1] < -LEAST ? (bounds[0] + bounds[1]) / 2 : 0;
}

/// How far the server's clock is ahead of this machine's; nothing where it is not certain that it is a second or more.
export function skewNow(): number {
  return skew;
}

/// Now, by the server's clock.
export function serverNow(): number {
  return Date.now() + skew;
}

export function millis(time: string | null | undefined): number | null {
  if (!time) return null;
  const found = Date.parse(time);
  return Number.isNaN(found) ? null : found;
}

/// From one time to another; never less than nothing.
export function between(from: number, to: number): number {
  return Math.max(0, to - from);
}

/// How long something took that is known from sums alone: within a factor of two.
export function about(span: number): string {
  return span < 1 ? duration(span) : `≈ ${duration(span)}`;
}

/// How long, in at most two units: 350 ms, 4.2 s, 3 min 20 s, 2 h 5 min, 4 d.
export function duration(span: number): string {
  const ms = Math.max(0, span);
  if (ms < 1) return ms === 0 ? "0 ms" : "<1 ms";
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 59.95) return `${seconds < 9.95 ? (Math.round(seconds * 10) / 10).toString() : Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  const two = (big: number, bigName: string, small: number, smallName: string) =>
    small ? `${big} ${bigName} ${small} ${smallName}` : `${big} ${bigName}`;
  if (whole < 3600) return two(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 86400) return two(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min");
  return two(Math.floor(whole / 86400), "d", Math.floor((whole % 86400) / 3600), "h");
}

/// How long, in one unit, where there is no room for two.
export function coarse(span: number): string {
  if (span < 60_000) return `${Math.floor(Math.max(0, span) / 1000)} s`;
  if (span < 3_600_000) return `${Math.floor(span / 60_000)} min`;
  if (span < 86_400_000) return `${Math.floor(span / 3_600_000)} h`;
  return `${Math.floor(span / 86_400_000)} d`;
}

/// How far from now: 5 s ago, in 3 min, now.
export function relative(time: number, now: number): string {
  const off = now - time;
  if (Math.abs(off) < 1000) return "now";
  return off > 0 ? `${coarse(off)} ago` : `in ${coarse(-off)}`;
}

/// As `Intl` would say it for en-GB. It is written out here because the first format that a browser makes costs as much as drawing ten
/// rows, and a chart says the time of each of its points.
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sept", "Oct", "Nov", "Dec"];

/// The parts of a time that people read, in UTC or in the zone of this machine.
function parted(time: number, utc: boolean): { year: number; date: string; hours: string } {
  // A time that is as far from UTC as this machine reads in UTC as it does here.
  const at = new Date(utc ? time : time - new Date(time).getTimezoneOffset() * 60_000);
  return { year: at.getUTCFullYear(), date: `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`, hours: at.toISOString().slice(11, 19) };
}

/// The whole time, in the zone that was chosen.
export function absolute(time: number, utc = false): string {
  const { year, date, hours } = parted(time, utc);
  return `${date} ${year}, ${hours}.${String(new Date(time).getMilliseconds()).padStart(3, "0")}${utc ? " UTC" : ""}`;
}

/// The time of day, to the second.
export function timeOfDay(time: number, utc = false): string {
  return parted(time, utc).hours;
}

const formats = new Map<string, Intl.DateTimeFormat>();

/// Made once for each zone: making one takes longer than a hundred uses.
function formatOf(zone: string): Intl.DateTimeFormat {
  let format = formats.get(zone);
  if (!format) formats.set(zone, (format = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium", timeZone: zone })));
  return format;
}

/// The time to the second in a zone, with its name; nothing where this browser does not know the zone.
export function inZone(time: number, zone: string): string | null {
  try {
    return `${formatOf(zone).format(time)} ${zone}`;
  } catch {
    return null;
  }
}

/// Whether clocks of a zone then say what they do in the zone that was chosen.
export function isSame(time: number, zone: string, utc: boolean): boolean {
  const here = utc ? "UTC" : new Intl.DateTimeFormat().resolvedOptions().timeZone;
  const [there, chosen] = [inZone(time, zone), inZone(time, here)];
  return there !== null && chosen !== null && there.slice(0, -zone.length) === chosen.slice(0, -here.length);
}

/// The time of day in the zone that was chosen, with the day where it is another one.
export function clock(time: number, now: number, utc = false): string {
  const [it, today] = [parted(time, utc), parted(now, utc)];
  return it.date === today.date && it.year === today.year ? it.hours : `${it.date} ${it.hours}`;
}

/// A time as a field for times wants it, to the second, in the zone that was chosen.
export function timeField(time: number, utc = false): string {
  const shift = utc ? 0 : new Date(time).getTimezoneOffset() * 60_000;
  return new Date(time - shift).toISOString().slice(0, 19);
}

/// The time that such a field says; nothing where it says none.
export function fieldTime(text: string, utc = false): number | null {
  return millis(text && utc ? `${text}Z` : text);
}

/// A sentence of the server's, with its times as people read them.
export function readable(text: string, now: number, utc = false): string {
  const said = text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, (time) => clock(millis(time) ?? now, now, utc));
  // Where a wait and the run have the same end it is said twice.
  const end = /, until ([^,()]+)$/.exec(said);
  return end && said.slice(0, end.index).includes(`until ${end[1]!}`) ? said.slice(0, end.index) : said;
}
