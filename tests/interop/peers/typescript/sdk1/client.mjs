// The client of @modelcontextprotocol/sdk, 1.x: it has the handshake alone.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

export { McpError as AnsweredError } from "@modelcontextprotocol/sdk/types.js";

export function client(info, era) {
  if (era !== "legacy") throw new Error(`this SDK has no ${era} era`);
  return new Client(info);
}

export function link(server) {
  if (server instanceof URL) return new StreamableHTTPClientTransport(server);
  const transport = new StdioClientTransport(server);
  transport.setProtocolVersion = (version) => (transport.protocolVersion = version); // as over HTTP
  return transport;
}

export const callTool = (client, params, options) => client.callTool(params, undefined, options);

export const version = (client) => client.transport.protocolVersion;
