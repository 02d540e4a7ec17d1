// A decoder of payloads that somebody runs beside Outlast: whose values are encrypted before they are recorded can read them here, and
// the server cannot. This browser keeps which one it is; whom pages may ask at all is said by the server, and enforced by its policy.
import { config } from "../app/config";
import { ApiError } from "../api/client";
import { type Json, parse } from "./json";
import { type Codec, codec } from "./kept";


/// Why an address cannot be the decoder's.
export function wrong(url: string, allowed: string | null | undefined): string | null {
  if (!allowed) return "This server lets pages ask nobody else.";
  try {
    return new URL(url).origin === allowed ? null : `It has to begin with ${allowed}/.`;
  } catch {
    return `It looks like ${allowed}/decode.`;
  }
}

/// The decoder, where there is one that may be asked.
export function usable(): Codec | null {
  const found = codec();
  return found && !wrong(found.url, config.codec) ? found : null;
}

/// What it makes of a payload: JSON is sent, and JSON comes back. Nothing else goes with it.
export async function decode({ url, cookies }: Codec, text: string, ask: typeof fetch = fetch): Promise<Json> {
  let answer: Response;
  try {
    answer = await ask(url, { method: "POST", headers: { "content-type": "application/json" }, body: text, credentials: cookies ? "include" : "omit", referrerPolicy: "no-referrer", redirect: "error" });
  } catch {
    throw new ApiError(0, "codec", `The decoder at ${url} cannot be reached, or does not let this page ask.`);
  }
  if (!answer.ok) throw new ApiError(answer.status, "codec", `The decoder answered ${answer.status}.`);
  try {
    return parse(await answer.text());
  } catch {
    throw new ApiError(0, "codec", "What the decoder answered is no JSON.");
  }
}
