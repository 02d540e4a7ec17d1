// The real binary on a database of its own, and a real browser that tells of everything that goes wrong in it.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";

const BINARY = process.env.OUTLAST_BINARY ?? fileURLToPath(new URL("../../target/debug/outlast", import.meta.url));
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export class Lab {
  url = "";
  readonly complaints: string[] = [];
  private server: ChildProcess | null = null;
  private browser!: Browser;
  private readonly folder = mkdtempSync(join(tmpdir(), "outlast-e2e-"));

  static async open(): Promise<Lab> {
    const lab = new Lab();
    await lab.start();
    const executablePath = process.env.CHROMIUM ?? execFileSync("which", ["chromium"]).toString().trim();
    lab.browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
    return lab;
  }

  /// Starts the server; the second time at the same address.
  async start() {
    const port = this.url ? new URL(this.url).port : "0";
    const database = `sqlite://${join(this.folder, "lab.db")}`;
    const server = (this.server = spawn(BINARY, ["dev", "--port", port, "--database-url", database], { stdio: ["ignore", "pipe", "pipe"] }));
    let said = "";
    this.url = await new Promise((resolve, reject) => {
      server.stdout!.on("data", (data: Buffer) => {
        said += data.toString();
        const found = /http:\/\/127\.0\.0\.1:\d+/.exec(said);
        if (found) resolve(found[0]);
      });
      server.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
    });
  }

  async stop() {
    const server = this.server!;
    const ended = new Promise((resolve) => server.on("exit", resolve));
    server.kill("SIGKILL");
    await ended;
  }

  async close() {
    await this.browser?.close();
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /// A page whose console, errors and violations are kept.
  async page(path: string, theme: "light" | "dark" = "light"): Promise<Page> {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: theme });
    const page = await context.newPage();
    page.on("console", (message) => message.type() === "error" && this.complaints.push(message.text()));
    page.on("pageerror", (error) => this.complaints.push(String(error)));
    await page.goto(this.url + path);
    return page;
  }

  async api<T = Record<string, unknown>>(path: string, body?: unknown): Promise<T> {
    const init = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: typeof body === "string" ? body : JSON.stringify(body) };
    const answer = await fetch(`${this.url}/api/v1${path}`, init);
    if (!answer.ok) throw new Error(await answer.text());
    return (await answer.json()) as T;
  }

  /// The id of a new order that waits for approval.
  async order(item: string): Promise<string> {
    const { id } = await this.api<{ id: string }>("/runs", { definition: "order", input: { item, cents: 50_000 } });
    for (;;) {
      const { status } = await this.api<{ status: string }>(`/runs/${id}`);
      if (status === "waiting") return id;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/// What axe calls serious or worse.
export async function findings(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const axe = (window as unknown as { axe: { run(): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }> } }).axe;
    return (await axe.run()).violations;
  });
  return found.filter((one) => ["serious", "critical"].includes(one.impact)).map((one) => `${one.id}: ${one.nodes[0]?.html}`);
}
