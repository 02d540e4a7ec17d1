// The API as typed functions. Answers are read without loss (lib/json), problems become errors that say what to do.
import createClient, { type Client } from "openapi-fetch";
import { config } from "../app/config";
import { quick, write } from "../lib/json";
import { keyOf, newAct } from "../lib/once";
import { noteServerDate } from "../lib/time";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

/// Why something was not done, as the server says it.
export class ApiError extends Error {
  constructor(readonly status: number, readonly code: string, message: string) {
    super(message);
  }
}

/// Whether somebody asked for it, or the server did.
type TokenWanted = (isAskedFor: boolean) => void;
const tokenWanted = new Set<TokenWanted>();

/// Gives the server a token, for a cookie that no script can read. Whatever is wrong with it is thrown.
export async function signIn(text: string) {
  await data(looks.POST("/api/v1/session", { body: { token: text } }));
  await data(api.GET("/api/v1/me"));
}

/// Gives the server the ticket of an address that it printed when it started for the first time, for a cookie. A ticket opens once, and
/// does not stay in the address.
export async function redeemTicket() {
  const [, ticket] = /^#ticket=([\w-]+)$/.exec(location.hash) ?? [];
  if (!ticket) return;
  history.replaceState(history.state, "", location.pathname + location.search);
  // Who is too late is asked for a token.
  await data(looks.POST("/api/v1/session", { body: { ticket } })).catch(() => undefined);
}

/// The cookie opens nothing any more.
export async function signOut() {
  await data(api.DELETE("/api/v1/session"));
}

/// Calls back when the server wants a token.
export function onTokenWanted(call: TokenWanted): () => void {
  tokenWanted.add(call);
  return () => tokenWanted.delete(call);
}

/// Somebody wants to give a token after all.
export function wantToken() {
  tokenWanted.forEach((call) => call(true));
}

async function lossless(request: Request): Promise<Response> {
  let response: Response;
  const asked = Date.now();
  try {
    response = await fetch(request);
  } catch (error) {
    if (error instanceof DOMException) throw error;
    throw new ApiError(0, "unreachable", "The server cannot be reached.");
  }
  noteServerDate(response.headers.get("date"), asked);
  const text = await response.text();
  if (response.status === 401) tokenWanted.forEach((call) => call(false));
  if (!response.ok) throw problem(response.status, text);
  if (response.status === 204) return new Response(null, { status: 204 });
  // openapi-fetch calls `json` where it knows a length.
  const etag = response.headers.get("etag");
  const copy = new Response(text, { status: response.status, headers: { "content-length": String(text.length), ...(etag && { etag }) } });
  Object.defineProperty(copy, "json", { value: async () => quick(text) });
  return copy;
}

function problem(status: number, text: string): ApiError {
  try {
    const { code, detail, checks } = JSON.parse(text) as { code?: string; detail?: string; checks?: { name: string; ok: boolean; detail?: string }[] };
    // Whether it is ready is said by its checks.
    const wrong = checks?.filter((check) => !check.ok).map((check) => `${check.name.replaceAll("_", " ")}${check.detail ? ` (${check.detail})` : ""}`);
    return new ApiError(status, code ?? "unknown", detail ?? (wrong?.length ? `not ok: ${wrong.join(", ")}.` : `The server answered ${status}.`));
  } catch {
    return new ApiError(status, "unknown", `The server answered ${status}.`);
  }
}

function client(fetch: (request: Request) => Promise<Response>): Client<paths> {
  return createClient<paths>({
    baseUrl: new URL(config.base, location.href).href.replace(/\/$/, ""),
    fetch,
    bodySerializer: (body) => write(body),
    querySerializer: { array: { style: "form", explode: true } },
  });
}

const all = client(lossless);

/// Everything that may be asked for twice: what only looks, and what puts or takes away.
export const api: Omit<typeof all, "POST"> = all;
/// What is sent somewhere and does nothing there that must not be done twice: what only says what would be, a file that is read, a session.
export const looks: Pick<typeof all, "POST"> = all;

/// Does what a dialog is for.
export type Once = Pick<typeof all, "POST">;

/// How long somebody waits who asks again for what is being done, in seconds: what takes longer the server gives up.
const IN_PROGRESS = 35;

/// For each dialog its own. What is asked for again in the same words, because the answer was lost or somebody pressed twice, is done once and
/// answered alike. Words that were changed are another request; and so is what comes behind an answer.
export function once(): Once {
  let act = newAct();
  return client(async (request) => {
    const body = await request.clone().text();
    request.headers.set("idempotency-key", keyOf(act, request.method, new URL(request.url).pathname, body));
    for (let left = IN_PROGRESS; ; left--) {
      try {
        const answer = await lossless(new Request(request, { method: "POST", body }));
        act = newAct();
        return answer;
      } catch (error) {
        if (!(error instanceof ApiError && error.code === "in_progress" && left > 0)) throw error;
        await new Promise((resolve) => setTimeout(resolve, 1000));
      }
    }
  });
}

/// What was answered; whatever went wrong was thrown already.
export async function data<T>(call: Promise<{ data?: T }>): Promise<T> {
  return (await call).data as T;
}
