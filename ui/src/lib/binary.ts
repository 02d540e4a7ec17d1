// Texts that are bytes in disguise: how many, and of what. Nobody reads base64, and a page of it hides everything else.
import { size } from "./size";

export interface Bytes {
  /// As people say it: `PNG image`, or nothing where its beginning tells nothing.
  type?: string;
  size: number;
}

/// Shorter ones are as easily a word or a number.
const LEAST = 64;
const DATA = /^data:([\w.+-]+\/[\w.+-]+)?(?:;[\w-]+=[\w.-]+)*;base64,/;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$|^[A-Za-z0-9_-]+={0,2}$/;

/// How files of a kind begin.
const BEGINNINGS: [string, string][] = [
  ["PNG image", "\x89PNG"], ["JPEG image", "\xff\xd8\xff"], ["GIF image", "GIF8"], ["PDF document", "%PDF"], ["ZIP archive", "PK\x03\x04"], ["gzip", "\x1f\x8b"], ["Zstandard", "\x28\xb5\x2f\xfd"], ["SQLite database", "SQLite format 3"],
];

/// What a text is, if it is base64 or a `data:` address. Digests and ids are written with the same letters: of those that are all digits and
/// the first letters, or have no letters of each kind, nobody can tell.
export function bytesOf(text: string): Bytes | null {
  const data = DATA.exec(text);
  const body = data ? text.slice(data[0].length) : text;
  if (!data && (body.length < LEAST || body.length % 4 === 1 || /^[0-9a-fA-F]+$/.test(body) || ![/[a-z]/, /[A-Z]/, /\d/].every((kind) => kind.test(body)))) return null;
  if (!BASE64.test(body)) return null;
  const padding = body.length - body.replace(/=+$/, "").length;
  return { type: beginning(body) ?? data?.[1], size: Math.floor(((body.length - padding) * 3) / 4) };
}

function beginning(body: string): string | undefined {
  try {
    const head = atob(body.slice(0, 32).replaceAll("-", "+").replaceAll("_", "/").replace(/=+$/, ""));
    return BEGINNINGS.find(([, begin]) => head.startsWith(begin))?.[0];
  } catch {
    return undefined;
  }
}

/// In few words: `PNG image, 12 KiB`.
export function bytesIn({ type, size: count }: Bytes): string {
  return `${type ?? "base64"}, ${size(count)}`;
}
