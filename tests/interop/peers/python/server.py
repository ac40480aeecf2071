"""A server of the official SDK, of either generation, whose tools stream progress as our clients expect it.

    server.py http [PORT]   Streamable HTTP; 0, the default, takes any free port
    server.py stdio

Over HTTP it says `listening on http://127.0.0.1:PORT/mcp` on stderr when it is ready. Tools that
see their own cancellation append a line to the file that INTEROP_LOG names.
"""

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import Iterator

import uvicorn

try:
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
except ImportError:  # 1.x
    from mcp.server.fastmcp import Context, FastMCP as MCPServer
    from mcp.server.fastmcp.exceptions import ToolError

# Below CRITICAL the SDK prints a traceback for every session that a client deletes.
mcp = MCPServer("python-peer", log_level="CRITICAL")


def envelope(kind: str, content: object) -> str:
    body = {"v": 1, "type": kind, "content": content, "node": "peer"}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


@contextlib.contextmanager
def cancel_recorded(tool: str) -> Iterator[None]:
    try:
        yield
    except asyncio.CancelledError:
        if path := os.environ.get("INTEROP_LOG"):
            with open(path, "a", encoding="utf-8") as log:
                log.write(f"cancelled {tool}\n")
        raise


@mcp.tool()
async def echo(text: str) -> str:
    """Give the text back, without events."""
    return text


@mcp.tool()
async def stream(n: int, ctx: Context) -> str:
    """Send n text events tok0, tok1, ... and say "done"."""
    with cancel_recorded("stream"):
        for i in range(n):
            await ctx.report_progress(i + 1, n, envelope("text", f"tok{i}"))
    return "done"


@mcp.tool()
async def plain_progress(n: int, ctx: Context) -> str:
    """Report i of n for each i from 0, with no message."""
    for i in range(n):
        await ctx.report_progress(i, n)
    return "done"


@mcp.tool()
async def all_types(ctx: Context) -> str:
    """Send one event of every type; "custom" is a type of this tool's own."""
    events = {
        "text": "こんにちは 👋 \"quoted\" \\ \n",
        "think": "hmm",
        "log": "a line",
        "image": "data:image/png;base64,iVBORw0KGgo=",
        "stl": {"vertices": [[0, 0, 0.5]], "name": "tetra"},
        "video": {"url": "https://example.org/a.mp4", "seconds": 1.25},
        "emotion_data": {"joy": 0.75},
        "error": "only an event",
        "custom": [1, None, {"deep": True}],
    }
    for i, (kind, content) in enumerate(events.items(), start=1):
        await ctx.report_progress(i, len(events), envelope(kind, content))
    return "done"


@mcp.tool()
async def fail(message: str) -> str:
    """Fail with the message."""
    raise ToolError(message)  # 2.x keeps the text of any other exception to itself


@mcp.tool()
async def sleep(seconds: float, ctx: Context) -> str:
    """Send one text event "asleep", then wait."""
    with cancel_recorded("sleep"):
        await ctx.report_progress(1, None, envelope("text", "asleep"))
        await asyncio.sleep(seconds)
    return "slept"


def serve_http(port: int) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
        port = listener.getsockname()[1]
        print(f"listening on http://127.0.0.1:{port}/mcp", file=sys.stderr, flush=True)
        config = uvicorn.Config(mcp.streamable_http_app(), log_level="critical")
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["http", *port]:
            serve_http(int(*port))
        case ["stdio"]:
            mcp.run("stdio")
        case _:
            sys.exit("usage: server.py http [PORT] | stdio")
