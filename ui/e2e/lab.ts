// The real binary on a database of its own, and a real browser that tells of everything that goes wrong in it.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";

const BUILT = new URL("../../target/debug/", import.meta.url);
const BINARY = process.env.OUTLAST_BINARY ?? fileURLToPath(new URL("outlast", BUILT));
const MOUNTED = fileURLToPath(new URL("examples/mounted", BUILT));
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/// How long a browser waits for what has to come, however busy the machine is.
const PATIENCE = 90_000;

export type Theme = "light" | "dark";
/// `dev` has the samples, `mounted` is an application of somebody's with ours below `/ops`, `api` only answers, and `guarded` too, but nobody
/// without a token.
export type Program = "dev" | "mounted" | "api" | "guarded";
/// The PostgreSQL that `cargo xtask test` brings.
export const POSTGRES = process.env.OUTLAST_E2E_POSTGRES;

export class Lab {
  /// Where the dashboard is, without a slash at the end.
  url = "";
  readonly complaints: string[] = [];
  /// What the server has printed.
  said = "";
  private origin = "";
  private server: ChildProcess | null = null;
  private browser!: Browser;
  private readonly folder = mkdtempSync(join(tmpdir(), "outlast-e2e-"));
  readonly database: string;

  private constructor(private readonly program: Program, database: string | undefined, private readonly words: string[]) {
    this.database = database ?? `sqlite://${join(this.folder, "lab.db")}`;
  }

  static async open(program: Program = "dev", database?: string, ...words: string[]): Promise<Lab> {
    const lab = new Lab(program, database, words);
    await lab.start();
    lab.browser = await Lab.launch();
    return lab;
  }

  /// A browser that has never been anywhere.
  private static async launch(): Promise<Browser> {
    const executablePath = process.env.CHROMIUM ?? execFileSync("which", ["chromium"]).toString().trim();
    return await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  }

  /// What a command of the same binary says, about the same database.
  cli(...words: string[]): string {
    return execFileSync(BINARY, [...words, "--database-url", this.database], { stdio: ["ignore", "pipe", "pipe"] }).toString();
  }

  /// A new token. A server asks for one if there was any when it started.
  token(name: string, role: "viewer" | "operator" | "admin", ...bound: string[]): string {
    return (JSON.parse(this.cli("token", "create", name, "--role", role, ...bound, "-o", "json")) as { secret: string }).secret;
  }

  /// Starts the server; the second time at the same address.
  async start() {
    const port = this.origin ? new URL(this.origin).port : "0";
    const guarded = ["serve", "--role", "api", "--migrate", "--listen", `127.0.0.1:${port}`];
    const words = { dev: ["dev", "--port", port], api: [...guarded, "--insecure-no-auth-i-understand"], guarded, mounted: ["--port", port] }[this.program];
    const binary = this.program === "mounted" ? MOUNTED : BINARY;
    const server = (this.server = spawn(binary, [...words, ...this.words, "--database-url", this.database], { stdio: ["ignore", "pipe", "pipe"] }));
    this.said = "";
    this.origin = await new Promise((resolve, reject) => {
      server.stderr!.on("data", (data: Buffer) => (this.said += data.toString()));
      server.stdout!.on("data", (data: Buffer) => {
        this.said += data.toString();
        const found = /http:\/\/127\.0\.0\.1:\d+/.exec(this.said);
        if (found) resolve(found[0]);
      });
      server.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${this.said}`)));
    });
    this.url = this.origin + (this.program === "mounted" ? "/ops" : "");
  }

  async stop() {
    const server = this.server!;
    const ended = new Promise((resolve) => server.on("exit", resolve));
    server.kill("SIGKILL");
    await ended;
  }

  async close() {
    // A page may ask for something to the last: what stands in between for a test then finds no browser any more.
    for (const context of this.browser?.contexts() ?? []) {
      await context.unrouteAll({ behavior: "ignoreErrors" });
      for (const page of context.pages()) await page.unrouteAll({ behavior: "ignoreErrors" });
    }
    await this.browser?.close();
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /// A browser of somebody's, with nothing in it yet.
  async somebody(theme: Theme = "light"): Promise<BrowserContext> {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: theme });
    context.setDefaultTimeout(PATIENCE);
    return context;
  }

  /// A browser in which nothing is late and nothing goes by: pages draw what they have once they have waited for long enough, and say
  /// for a moment that something is done, and on a busy machine either may come before what a test looks for.
  async unhurried(theme: Theme = "light"): Promise<BrowserContext> {
    const context = await this.somebody(theme);
    await context.addInitScript(() => {
      // `BLINK` in main.tsx, `PATIENCE` in RunPage.tsx, and what `Copy` in parts.tsx shows.
      const [moments, own] = [[60, 1000, 1500], window.setTimeout.bind(window)];
      Object.assign(window, { setTimeout: (call: () => void, after?: number, ...rest: unknown[]) => own(call, moments.includes(after ?? 0) ? 600_000 : after, ...rest) });
    });
    return context;
  }

  /// How long it takes until something of a page stands on the screen, in milliseconds from the request for the document: in a browser that
  /// was started for it, in one that runs and has nothing of ours, and in one that was here before.
  async firstPaint(path: string, what: string): Promise<{ started: number; empty: number; again: number }> {
    const browser = await Lab.launch();
    const somebody = async () => {
      const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
      await context.addInitScript((what) => {
        new MutationObserver((_, observer) => {
          if (!document.querySelector(what)) return;
          observer.disconnect();
          requestAnimationFrame(() => setTimeout(() => ((window as unknown as { painted: number }).painted = performance.now())));
        }).observe(document, { childList: true, subtree: true });
      }, what);
      return await context.newPage();
    };
    const visit = async (page: Page) => {
      await page.goto(this.url + path);
      const painted = await page.waitForFunction(() => (window as unknown as { painted?: number }).painted, undefined, { timeout: PATIENCE });
      const took = (await painted.jsonValue()) as number;
      await page.goto("about:blank");
      return took;
    };
    try {
      const started = await visit(await somebody());
      // Another context shares nothing with the first but the browser's processes.
      const page = await somebody();
      return { started, empty: await visit(page), again: await visit(page) };
    } finally {
      await browser.close();
    }
  }

  /// Writes an input in place of the one that a dialog brings. That has to be there first: where it comes between the choice of what was there and
  /// what replaces it, both stand there.
  async writeInput(page: Page, json: string) {
    const input = page.getByRole("textbox", { name: "Input" });
    await page.waitForFunction((field) => (field as HTMLTextAreaElement).value !== "", await input.elementHandle(), { timeout: PATIENCE });
    await input.fill(json);
  }

  /// A page whose console, errors and violations are kept.
  async page(path: string, theme: Theme = "light", context?: BrowserContext): Promise<Page> {
    const page = await (context ?? (await this.somebody(theme))).newPage();
    page.on("console", (message) => message.type() === "error" && this.complaints.push(`${page.url()}: ${message.text()}`));
    page.on("pageerror", (error) => this.complaints.push(`${page.url()}: ${error}`));
    await page.goto(this.url + path);
    return page;
  }

  async api<T = Record<string, unknown>>(path: string, body?: unknown, token?: string): Promise<T> {
    const answer = await this.ask(path, body, token);
    if (!answer.ok) throw new Error(await answer.text());
    return (await answer.json()) as T;
  }

  async ask(path: string, body?: unknown, token?: string): Promise<Response> {
    const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
    if (body === undefined) return await fetch(`${this.url}/api/v1${path}`, { headers });
    const text = typeof body === "string" ? body : JSON.stringify(body);
    return await fetch(`${this.url}/api/v1${path}`, { method: "POST", headers: { "content-type": "application/json", ...headers }, body: text });
  }

  /// The id of a new run, once it is in one of these states.
  async run(ask: Record<string, unknown>, ...until: string[]): Promise<string> {
    const { id } = await this.api<{ id: string }>("/runs", ask);
    await this.until(id, ...until);
    return id;
  }

  async until(id: string, ...statuses: string[]) {
    for (;;) {
      const { status } = await this.api<{ status: string }>(`/runs/${id}`);
      if (statuses.includes(status)) return;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /// Failures that are alike, as soon as there are any: what has ended is summed up some seconds later.
  async failures(): Promise<{ items: { fingerprint: string; definition: string }[] }> {
    for (;;) {
      const found = await this.api<{ items: { fingerprint: string; definition: string }[] }>("/errors");
      if (found.items.length) return found;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }

  /// The id of a new order that waits for approval.
  async order(item: string): Promise<string> {
    return await this.run({ definition: "order", input: { item, cents: 50_000 } }, "waiting");
  }
}

/// What axe calls serious or worse. Of all that it looks at only contrasts depend on the theme: in the dark it looks at those.
export async function findings(page: Page, theme: Theme): Promise<string[]> {
  await page.evaluate(AXE);
  const found = await page.evaluate(async (options) => {
    const axe = (window as unknown as { axe: { run(options: object): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }> } }).axe;
    return (await axe.run(options)).violations;
  }, theme === "dark" ? { runOnly: ["color-contrast", "link-in-text-block"] } : {});
  return found.filter((one) => ["serious", "critical"].includes(one.impact)).map((one) => `${one.id}: ${one.nodes[0]?.html}`);
}
