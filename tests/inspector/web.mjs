// Drives the web form of the inspector in direct mode, in which the page itself talks to the server
// and the browser decides by CORS what it may see.
//
//   node web.mjs PROGRAM CHROMIUM    PROGRAM is agent-hub; starts `agent-hub echo` twice
//
// With the page's origin named the page must list and call the tool; without, it must be refused.
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import puppeteer from "puppeteer-core";
import handler from "serve-handler";

const [program, chromium] = process.argv.slice(2);
const TEXT = "say me back";
const PATIENCE = { timeout: 30_000 };

/** Serves the inspector's page, as its own launcher does, on any free port. */
async function page_server() {
  const manifest = createRequire(import.meta.url).resolve("@modelcontextprotocol/inspector-client/package.json");
  const rules = { public: join(dirname(manifest), "dist"), rewrites: [{ source: "/**", destination: "/index.html" }] };
  const server = createServer((request, response) => handler(request, response, rules));
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return { origin: `http://127.0.0.1:${server.address().port}`, server };
}

/** The echo specialist and its URL. */
async function echo(...args) {
  const child = spawn(program, ["echo", "--port", "0", ...args], { stdio: ["ignore", "ignore", "pipe"] });
  process.on("exit", () => child.kill()); // also when something here is thrown
  for await (const line of createInterface(child.stderr)) {
    const url = line.match(/^listening on (.*)$/)?.[1];
    if (url) return { child, url };
  }
  throw new Error("agent-hub echo did not start");
}

const button = (name) => `::-p-xpath(//button[normalize-space(.)="${name}"])`;
const shown = (text) => `::-p-xpath(//*[contains(text(), "${text}")])`;

/** A page that is about to talk to `url`; `blocked` holds what the browser kept from it. */
async function inspector(browser, origin, url) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  const blocked = [];
  page.on("console", (message) => /CORS policy/.test(message.text()) && blocked.push(message.text()));
  await page.evaluateOnNewDocument((url) => {
    localStorage.setItem("lastConnectionType", "direct");
    localStorage.setItem("lastTransportType", "streamable-http");
    localStorage.setItem("lastSseUrl", url);
  }, url);
  await page.goto(origin);
  await page.locator(button("Connect")).click();
  return { page, blocked };
}

const { origin, server } = await page_server();
const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox"] });
const named = await echo("--allow-origin", origin);
const unnamed = await echo();
const table = {
  "a page whose origin is named lists and calls the tool": async () => {
    const { page, blocked } = await inspector(browser, origin, named.url);
    try {
      await page.waitForSelector(shown("Connected"), PATIENCE);
      await page.locator(button("List Tools")).click();
      await (await page.waitForSelector(shown("one character at a time"), PATIENCE)).click();
      await page.locator("textarea").fill(TEXT);
      await page.locator(button("Run Tool")).click();
      await page.waitForSelector(shown("Success"), PATIENCE);
      const text = await page.evaluate(() => document.body.innerText);
      if (!text.includes(TEXT)) throw new Error("the result is not shown");
      if (blocked.length) throw new Error(blocked.join("\n"));
    } catch (error) {
      const text = await page.evaluate(() => document.body.innerText);
      throw new Error(`${error.message}\n${blocked.join("\n")}\nthe page:\n${text}`);
    }
  },
  "a page whose origin is not named is refused": async () => {
    const { page, blocked } = await inspector(browser, origin, unnamed.url);
    await page.waitForSelector(shown("Connection Error"), PATIENCE);
    if (!blocked.length) throw new Error("the browser kept nothing from the page");
  },
};
let failed = 0;
for (const [name, check] of Object.entries(table)) {
  try {
    await check();
    console.log(`ok     ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name}: ${error.message}`);
  }
}
await browser.close();
server.close();
for (const { child } of [named, unnamed]) child.kill();
process.exitCode = failed ? 1 : 0;
