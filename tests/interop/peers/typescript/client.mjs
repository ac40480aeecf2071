// A client of the official SDK that tells what it saw, one JSON object a line, in order of arrival.
//
//     client.mjs SDK ERA TARGET list                            {"tools": [...], "version": "2025-11-25"}
//     client.mjs SDK ERA TARGET call TOOL ARGS [TOOL ARGS]...   in one session, one after the other; for each
//                                                               {"progress": .., "total": .., "message": ..} each,
//                                                               then {"result": text, "is_error": bool}
//                                                               or {"error": code, "message": ..}
//     client.mjs SDK ERA TARGET cancel TOOL ARGS [TOOL ARGS]... as call, but cancels the first call after its third
//                                                               progress message: {"cancelled": true} in place of a
//                                                               result
//
// SDK is `sdk1` or `sdk2`, the generation: what differs is in the folder of that name. ERA is `legacy`, the handshake,
// or `modern`, for which a probe looks. TARGET is a URL or `stdio:COMMAND ARGS...`, one argument, in which quotes work
// as in a shell. What the SDK complains of is {"protocol_error": ..}.

const PROGRESS_BEFORE_CANCEL = 3;

const say = (seen) => console.log(JSON.stringify(seen));

function server(target) {
  if (!target.startsWith("stdio:")) return new URL(target);
  const words = target.slice("stdio:".length).matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g);
  const [command, ...args] = Array.from(words, ([, single, double, bare]) => single ?? double ?? bare);
  return { command, args, env: process.env };
}

// Both generations give a response out at once but progress one microtask later, when nobody may wait for it any more:
// what shares a chunk with its response would be lost
// (https://github.com/modelcontextprotocol/typescript-sdk/issues/2580).
function oneMessageATurn(transport) {
  const deliver = transport.onmessage;
  let turn = Promise.resolve();
  transport.onmessage = (...message) => {
    turn = turn.then(() => deliver(...message));
  };
}

async function call(name, args, { seen = () => {}, signal } = {}) {
  const onprogress = ({ progress, total = null, message = null }) => {
    say({ progress, total, message });
    seen();
  };
  try {
    const params = { name, arguments: JSON.parse(args) };
    const result = await sdk.callTool(client, params, { onprogress, signal });
    const texts = result.content.filter(({ type }) => type === "text").map(({ text }) => text);
    say({ result: texts.join("\n"), is_error: result.isError ?? false });
  } catch (error) {
    if (signal?.aborted) say({ cancelled: true });
    else if (error instanceof sdk.AnsweredError) say({ error: error.code, message: error.message });
    else throw error;
  }
}

// Aborting tells the server.
async function cancel(name, args) {
  const aborter = new AbortController();
  let left = PROGRESS_BEFORE_CANCEL;
  const seen = () => --left === 0 && aborter.abort("enough");
  await call(name, args, { seen, signal: aborter.signal });
}

async function run(scenario, [name, args, ...rest]) {
  switch (scenario) {
    case "list":
      say({ tools: (await client.listTools()).tools.map(({ name }) => name), version: sdk.version(client) });
      return;
    case "call":
      await call(name, args);
      break;
    case "cancel":
      await cancel(name, args);
      break;
    default:
      throw new Error(`unknown scenario: ${scenario}`);
  }
  if (rest.length > 0) await run("call", rest);
}

const [generation, era, target, scenario, ...args] = process.argv.slice(2);
const sdk = await import(`./${generation}/client.mjs`);
const client = sdk.client({ name: "typescript-peer", version: "1" }, era);
const transport = sdk.link(server(target));
client.onerror = (error) => say({ protocol_error: String(error) });
await client.connect(transport);
oneMessageATurn(transport);
try {
  await run(scenario, args);
  await transport.terminateSession?.();
} finally {
  client.onerror = undefined; // closing breaks off the streams that are still open
  await client.close();
}
