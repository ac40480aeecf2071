// An McpServer whose tools stream progress as our clients expect it.
//
//     server.mjs http [PORT]    sessions over Streamable HTTP; 0, the default, takes any free port
//     server.mjs stdio
//
// Over HTTP it says `listening on http://127.0.0.1:PORT/mcp` on stderr when it is ready. Tools that
// see their own cancellation append a line to the file that INTEROP_LOG names.

import { randomUUID } from "node:crypto";
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";
import { setTimeout } from "node:timers/promises";

import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

const envelope = (type, content) => JSON.stringify({ v: 1, type, content, node: "peer" });

const text = (text) => ({ content: [{ type: "text", text }] });

async function report({ _meta, sendNotification }, progress, total, message) {
  const progressToken = _meta?.progressToken;
  if (progressToken === undefined) return;
  const params = { progressToken, progress, total, message };
  await sendNotification({ method: "notifications/progress", params });
}

function recordCancel(tool, signal) {
  const log = process.env.INTEROP_LOG;
  if (log) signal.addEventListener("abort", () => appendFileSync(log, `cancelled ${tool}\n`));
}

// One for each session: the SDK's server serves one transport.
function build() {
  const mcp = new McpServer({ name: "typescript-peer", version: "1" });

  mcp.registerTool(
    "echo",
    { description: "Give the text back, without events.", inputSchema: { text: z.string() } },
    async (args) => text(args.text),
  );

  mcp.registerTool(
    "stream",
    {
      description: 'Send n text events tok0, tok1, ... and say "done".',
      inputSchema: { n: z.number().int() },
    },
    async ({ n }, extra) => {
      recordCancel("stream", extra.signal);
      for (let i = 0; i < n; i++) await report(extra, i + 1, n, envelope("text", `tok${i}`));
      return text("done");
    },
  );

  mcp.registerTool(
    "plain_progress",
    {
      description: "Report i of n for each i from 0, with no message.",
      inputSchema: { n: z.number().int() },
    },
    async ({ n }, extra) => {
      for (let i = 0; i < n; i++) await report(extra, i, n);
      return text("done");
    },
  );

  mcp.registerTool(
    "all_types",
    { description: 'Send one event of every type; "custom" is a type of this tool\'s own.' },
    async (extra) => {
      const events = Object.entries({
        text: 'こんにちは 👋 "quoted" \\ \n',
        think: "hmm",
        log: "a line",
        image: "data:image/png;base64,iVBORw0KGgo=",
        stl: { vertices: [[0, 0, 0.5]], name: "tetra" },
        video: { url: "https://example.org/a.mp4", seconds: 1.25 },
        emotion_data: { joy: 0.75 },
        error: "only an event",
        custom: [1, null, { deep: true }],
      });
      for (const [i, [type, content]] of events.entries()) {
        await report(extra, i + 1, events.length, envelope(type, content));
      }
      return text("done");
    },
  );

  mcp.registerTool(
    "fail",
    { description: "Fail with the message.", inputSchema: { message: z.string() } },
    async ({ message }) => {
      throw new Error(message);
    },
  );

  mcp.registerTool(
    "sleep",
    {
      description: 'Send one text event "asleep", then wait.',
      inputSchema: { seconds: z.number() },
    },
    async ({ seconds }, extra) => {
      recordCancel("sleep", extra.signal);
      await report(extra, 1, undefined, envelope("text", "asleep"));
      await setTimeout(seconds * 1000, undefined, { signal: extra.signal });
      return text("slept");
    },
  );

  return mcp;
}

function serveHttp(port) {
  const sessions = new Map();
  const http = createServer(async (request, response) => {
    const id = request.headers["mcp-session-id"];
    let transport = sessions.get(id);
    if (request.url !== "/mcp" || (id !== undefined && transport === undefined)) {
      response.writeHead(404).end();
      return;
    }
    if (transport === undefined) {
      // It refuses what is not an initialize.
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => sessions.set(id, transport),
      });
      transport.onclose = () => sessions.delete(transport.sessionId);
      await build().connect(transport);
    }
    await transport.handleRequest(request, response);
  });
  http.listen(port, "127.0.0.1", () => {
    console.error(`listening on http://127.0.0.1:${http.address().port}/mcp`);
  });
}

async function serveStdio() {
  const mcp = build();
  // The SDK does not look for the end of its input: a tool at work would keep the process alive.
  process.stdin.once("end", () => mcp.close());
  await mcp.connect(new StdioServerTransport());
}

const [link, port = "0"] = process.argv.slice(2);
switch (link) {
  case "http":
    serveHttp(Number(port));
    break;
  case "stdio":
    await serveStdio();
    break;
  default:
    console.error("usage: server.mjs http [PORT] | stdio");
    process.exitCode = 2;
}
