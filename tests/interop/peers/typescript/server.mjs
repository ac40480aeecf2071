// An McpServer whose tools stream progress as our clients expect it.
//
//     server.mjs SDK http [PORT]    Streamable HTTP; 0, the default, takes any free port
//     server.mjs SDK stdio
//
// SDK is `sdk1` or `sdk2`, the generation: what differs is in the folder of that name.
// Over HTTP it says `listening on http://127.0.0.1:PORT/mcp` on stderr when it is ready. Tools that
// see their own cancellation append a line to the file that INTEROP_LOG names.

import { appendFileSync } from "node:fs";
import { createServer } from "node:http";
import { setTimeout } from "node:timers/promises";

import { z } from "zod";

const envelope = (type, content) => JSON.stringify({ v: 1, type, content, node: "peer" });

const text = (text) => ({ content: [{ type: "text", text }] });

async function report({ progressToken, notify }, progress, total, message) {
  if (progressToken === undefined) return;
  await notify({ method: "notifications/progress", params: { progressToken, progress, total, message } });
}

function recordCancel(tool, signal) {
  const log = process.env.INTEROP_LOG;
  if (log) signal.addEventListener("abort", () => appendFileSync(log, `cancelled ${tool}\n`));
}

// One for each session, or each request where there are none: the SDK's server serves one transport.
function build() {
  const mcp = new sdk.McpServer({ name: "typescript-peer", version: "1" });

  mcp.registerTool(
    "echo",
    { description: "Give the text back, without events.", inputSchema: z.object({ text: z.string() }) },
    async (args) => text(args.text),
  );

  mcp.registerTool(
    "stream",
    {
      description: 'Send n text events tok0, tok1, ... and say "done".',
      inputSchema: z.object({ n: z.number().int() }),
    },
    async ({ n }, extra) => {
      const request = sdk.request(extra);
      recordCancel("stream", request.signal);
      for (let i = 0; i < n; i++) await report(request, i + 1, n, envelope("text", `tok${i}`));
      return text("done");
    },
  );

  mcp.registerTool(
    "plain_progress",
    {
      description: "Report i of n for each i from 0, with no message.",
      inputSchema: z.object({ n: z.number().int() }),
    },
    async ({ n }, extra) => {
      const request = sdk.request(extra);
      for (let i = 0; i < n; i++) await report(request, i, n);
      return text("done");
    },
  );

  mcp.registerTool(
    "all_types",
    { description: 'Send one event of every type; "custom" is a type of this tool\'s own.' },
    async (extra) => {
      const request = sdk.request(extra);
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
        await report(request, i + 1, events.length, envelope(type, content));
      }
      return text("done");
    },
  );

  mcp.registerTool(
    "fail",
    { description: "Fail with the message.", inputSchema: z.object({ message: z.string() }) },
    async ({ message }) => {
      throw new Error(message);
    },
  );

  mcp.registerTool(
    "sleep",
    {
      description: 'Send one text event "asleep", then wait.',
      inputSchema: z.object({ seconds: z.number() }),
    },
    async ({ seconds }, extra) => {
      const request = sdk.request(extra);
      recordCancel("sleep", request.signal);
      await report(request, 1, undefined, envelope("text", "asleep"));
      await setTimeout(seconds * 1000, undefined, { signal: request.signal });
      return text("slept");
    },
  );

  return mcp;
}

const [generation, link, port = "0"] = process.argv.slice(2);
const sdk = await import(`./${generation}/server.mjs`);
switch (link) {
  case "http": {
    const http = createServer(sdk.listener(build));
    http.listen(Number(port), "127.0.0.1", () => {
      console.error(`listening on http://127.0.0.1:${http.address().port}/mcp`);
    });
    break;
  }
  case "stdio":
    await sdk.serveStdio(build);
    break;
  default:
    console.error("usage: server.mjs sdk1|sdk2 http [PORT] | stdio");
    process.exitCode = 2;
}
