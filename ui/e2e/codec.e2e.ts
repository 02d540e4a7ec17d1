// Payloads that only a decoder of somebody's can read: pages ask it where the server allows that and a browser's settings say so, and
// nobody else ever.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { findings, Lab } from "./lab";

let lab: Lab;
let open: Lab;
let decoder: Server;
let origin: string;
const heard: { method: string; cookie: string | undefined; body: string }[] = [];
let run: string;

beforeAll(async () => {
  // Turns letters around, as an encryption would.
  decoder = createServer((request, response) => {
    let body = "";
    request.on("data", (piece: Buffer) => (body += piece.toString()));
    request.on("end", () => {
      heard.push({ method: request.method!, cookie: request.headers.cookie, body });
      const headers = { "access-control-allow-origin": "*", "access-control-allow-headers": "content-type", "content-type": "application/json" };
      const { secret } = request.method === "POST" ? (JSON.parse(body) as { secret: string }) : { secret: "" };
      response.writeHead(200, headers).end([...secret].reverse().join(""));
    });
  });
  await new Promise<void>((resolve) => decoder.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(decoder.address() as AddressInfo).port}`;
  lab = await Lab.open();
  open = await Lab.open("api", lab.database, "--codec-origin", origin);
  const secret = [...'{"iban":"DE89","cents":9007199254740993}'].reverse().join("");
  run = (await lab.api<{ id: string }>("/runs", { definition: "order", input: { item: "map", cents: 1, secret }, delay_ms: 3_600_000 })).id;
});
afterAll(async () => {
  await open.close();
  await lab.close();
  decoder.close();
});

it("decodes by a click where the server and the settings name a decoder, without losing a digit", async () => {
  const context = await open.somebody();
  const page = await open.page(`/runs/${run}`, "light", context);
  const input = page.getByRole("region", { name: "input", exact: true });
  await input.getByText('"map"').waitFor();
  expect(await page.getByRole("button", { name: "Decode input" }).count()).toBe(0);

  await page.goto(`${open.url}/settings`);
  const address = page.getByRole("textbox", { name: /Address/ });
  await address.fill("https://elsewhere.example.com/decode");
  await page.getByText(`It has to begin with ${origin}/.`).waitFor();
  expect(await page.getByRole("button", { name: "Keep" }).isDisabled()).toBe(true);
  await address.fill(`${origin}/decode`);
  await page.getByRole("button", { name: "Keep" }).click();
  await page.getByText(`Payloads can be decoded by ${origin}/decode`).waitFor();
  expect(await findings(page, "light")).toEqual([]);

  await page.goto(`${open.url}/runs/${run}`);
  await input.getByText('"map"').waitFor();
  expect(heard, "nothing goes there by itself").toEqual([]);
  await page.getByRole("button", { name: "Decode input" }).click();
  await page.getByRole("region", { name: "input, decoded" }).getByText("9007199254740993").waitFor();
  await page.getByText(`Decoded by ${new URL(origin).host}.`).waitFor();
  const asked = heard.filter((one) => one.method === "POST");
  expect(asked).toMatchObject([{ cookie: undefined }]);
  expect(JSON.parse(asked[0]!.body)).toMatchObject({ item: "map" });
  await page.getByRole("button", { name: "as recorded" }).click();
  await input.getByText('"map"').waitFor();
  expect(open.complaints).toEqual([]);
  await context.close();
});

it("asks nobody where the server names none, whatever a browser keeps, and its policy sees to that", async () => {
  const before = heard.length;
  const context = await lab.somebody();
  await context.addInitScript((url) => localStorage.setItem("outlast.codec", JSON.stringify({ url, cookies: false })), `${origin}/decode`);
  const page = await lab.page(`/runs/${run}`, "light", context);
  await page.getByRole("region", { name: "input" }).getByText('"map"').waitFor();
  expect(await page.getByRole("button", { name: "Decode input" }).count()).toBe(0);
  expect(await page.evaluate((url) => fetch(url, { method: "POST", body: "{}" }).then(() => "asked", () => "refused"), `${origin}/decode`)).toBe("refused");
  expect(heard.length).toBe(before);
  await page.goto(`${lab.url}/settings`);
  await page.getByText("This server lets pages ask nobody else.").waitFor();
  await context.close();
});
