"""What a user of the Python kit starts from: the SDK's server, one tool, and a few lines that write the envelope
into the message of a progress report. They leave json.dumps as it is, which escapes all but ASCII and puts spaces.

    quick_start.py http     Streamable HTTP on any free port, which uvicorn tells on stderr
    quick_start.py stdio

It runs on both generations of the SDK, and nothing but the SDK runs it.
"""

import json
import sys

try:
    from mcp.server.mcpserver import Context, MCPServer

    mcp = MCPServer("my-agent")
    http = {"port": 0}
except ImportError:  # 1.x
    from mcp.server.fastmcp import Context, FastMCP

    mcp = FastMCP("my-agent", port=0)
    http = {}

STEPS = 9


class EventStreamer:
    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.sent = 0

    async def send(self, kind: str, content: object, node: str | None = None) -> None:
        self.sent += 1
        envelope = {"v": 1, "type": kind, "content": content}
        if node is not None:
            envelope["node"] = node
        await self.ctx.report_progress(self.sent, STEPS, message=json.dumps(envelope))


@mcp.tool()
async def ask(user_request: str, ctx: Context) -> str:
    """Answer with one event of every type."""
    stream = EventStreamer(ctx)
    await stream.send("log", f"asked: {user_request}")
    await stream.send("think", "まず考える…", "plan")
    await stream.send("text", "こんにちは 👋🏽 \"you\" \\ / \b\f\n\r\t \u0001\u007f \u2028 é", "答え 💬")
    await stream.send("image", "data:image/png;base64,iVBORw0KGgo=", "draw")
    await stream.send("stl", "data:model/stl;base64,c29saWQgYQ==", "draw")
    await stream.send("video", {"url": "https://example.org/a.mp4?b=1&c=2", "seconds": 1.25}, "draw")
    await stream.send("emotion_data", {"joy": 0.75, "悲しみ": 0, "keys": ["😀", None, True]}, "face")
    await stream.send("error", "the camera is off, so I go on without it", "face")
    await stream.send("gesture", [1, -2.5, {"deep": {"er": []}}, ""], "body")
    return f"answered: {user_request}"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["http"]:
            mcp.run("streamable-http", **http)
        case ["stdio"]:
            mcp.run("stdio")
        case _:
            sys.exit("usage: quick_start.py http | stdio")
