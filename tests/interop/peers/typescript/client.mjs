// A client of the official SDK that tells what it saw, one JSON object a line, in order of arrival.
//
//     client.mjs TARGET list                            {"tools": [...]}
//     client.mjs TARGET call TOOL ARGS [TOOL ARGS]...   in one session, one after the other; for each
//                                                       {"progress": .., "total": .., "message": ..} each, then
//                                                       {"result": text, "is_error": bool} or {"error": code, "message": ..}
//     client.mjs TARGET cancel TOOL ARGS [TOOL ARGS]... as call, but cancels the first call after its third
//                                                       progress message: {"cancelled": true} in place of a result
//
// TARGET is a URL or `stdio:COMMAND ARGS...`, one argument, in which quotes work as in a shell. What the SDK
// complains of is {"protocol_error": ..}.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { McpError } from "@modelcontextprotocol/sdk/types.js";

const PROGRESS_BEFORE_CANCEL = 3;

const say = (seen) => console.log(JSON.stringify(seen));

function link(target) {
  if (!target.startsWith("stdio:")) return new StreamableHTTPClientTransport(new URL(target));
  const words = target.slice("stdio:".length).matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g);
  const [command, ...args] = Array.from(words, ([, single, double, bare]) => single ?? double ?? bare);
  return new StdioClientTransport({ command, args, env: process.env });
}

// The SDK gives a response out at once but progress one microtask later, when nobody may wait for it any more: what
// shares a chunk with its response would be lost (https://github.com/modelcontextprotocol/typescript-sdk/issues/2580).
function oneMessageATurn(transport) {
  const deliver = transport.onmessage;
  let turn = Promise.resolve();
  transport.onmessage = (...message) => {
    turn = turn.then(() => deliver(...message));
  };
}

async function call(client, name, args, { seen = () => {}, signal } = {}) {
  const onprogress = ({ progress, total = null, message = null }) => {
    say({ progress, total, message });
    seen();
  };
  try {
    const params = { name, arguments: JSON.parse(args) };
    const result = await client.callTool(params, undefined, { onprogress, signal });
    const texts = result.content.filter(({ type }) => type === "text").map(({ text }) => text);
    say({ result: texts.join("\n"), is_error: result.isError ?? false });
  } catch (error) {
    if (!(error instanceof McpError)) throw error;
    say(signal?.aborted ? { cancelled: true } : { error: error.code, message: error.message });
  }
}

// Aborting sends notifications/cancelled.
async function cancel(client, name, args) {
  const aborter = new AbortController();
  let left = PROGRESS_BEFORE_CANCEL;
  const seen = () => --left === 0 && aborter.abort("enough");
  await call(client, name, args, { seen, signal: aborter.signal });
}

async function run(client, scenario, [name, args, ...rest]) {
  switch (scenario) {
    case "list":
      say({ tools: (await client.listTools()).tools.map(({ name }) => name) });
      return;
    case "call":
      await call(client, name, args);
      break;
    case "cancel":
      await cancel(client, name, args);
      break;
    default:
      throw new Error(`unknown scenario: ${scenario}`);
  }
  if (rest.length > 0) await run(client, "call", rest);
}

const [target, scenario, ...args] = process.argv.slice(2);
const transport = link(target);
const client = new Client({ name: "typescript-peer", version: "1" });
client.onerror = (error) => say({ protocol_error: String(error) });
await client.connect(transport);
oneMessageATurn(transport);
try {
  await run(client, scenario, args);
  await transport.terminateSession?.();
} finally {
  client.onerror = undefined; // closing breaks off the streams that are still open
  await client.close();
}
