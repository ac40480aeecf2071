// The server of @modelcontextprotocol/sdk, 1.x.

import { randomUUID } from "node:crypto";

import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";

export { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";

export const request = ({ _meta, sendNotification, signal }) => ({
  progressToken: _meta?.progressToken,
  notify: sendNotification,
  signal,
});

export function listener(build) {
  const sessions = new Map();
  return async (request, response) => {
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
  };
}

export async function serveStdio(build) {
  const mcp = build();
  // The SDK does not look for the end of its input: a tool at work would keep the process alive.
  process.stdin.once("end", () => mcp.close());
  await mcp.connect(new StdioServerTransport());
}
