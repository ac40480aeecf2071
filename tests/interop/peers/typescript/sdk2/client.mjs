// The client of @modelcontextprotocol/client, 2.x.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

export { ProtocolError as AnsweredError } from "@modelcontextprotocol/client";

const MODES = { legacy: "legacy", modern: "auto" };

export const client = (info, era) => new Client(info, { versionNegotiation: { mode: MODES[era] } });

export const link = (server) =>
  server instanceof URL ? new StreamableHTTPClientTransport(server) : new StdioClientTransport(server);

export const callTool = (client, params, options) => client.callTool(params, options);

export const version = (client) => client.getNegotiatedProtocolVersion();
