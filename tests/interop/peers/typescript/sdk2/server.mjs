// The server of @modelcontextprotocol/server, 2.x: both eras on one endpoint, without sessions in either.

import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler } from "@modelcontextprotocol/server";

export { McpServer } from "@modelcontextprotocol/server";
export { serveStdio } from "@modelcontextprotocol/server/stdio";

export const request = ({ mcpReq: { _meta, notify, signal } }) => ({
  progressToken: _meta?.progressToken,
  notify,
  signal,
});

export const listener = (build) => toNodeHandler(createMcpHandler(build));
