"""A client of the official SDK that tells what it saw, one JSON object a line, in order of arrival.

    client.py ERA TARGET list                             {"tools": [...], "version": "2025-11-25"}
    client.py ERA TARGET call TOOL ARGS [TOOL ARGS]...    in one session, one after the other; for each
                                                          {"progress": .., "total": .., "message": ..} each, then
                                                          {"result": text, "is_error": bool}
                                                          or {"error": code, "message": ..}
    client.py ERA TARGET cancel TOOL ARGS [TOOL ARGS]...  as call, but cancels the first call after its third
                                                          progress message: {"cancelled": true} in place of a result

ERA is `legacy`, the handshake, or `modern`, for which a probe looks. TARGET is a URL or `stdio:COMMAND ARGS...`, one
argument, in which quotes work as in a shell. What the SDK complains of is {"protocol_error": ..}.

It runs on both generations of the SDK: what differs is in the class Connection of each.
"""

import contextlib
import json
import os
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable

import anyio
from mcp import StdioServerParameters, types

PROGRESS_BEFORE_CANCEL = 3


def say(**seen: object) -> None:
    print(json.dumps(seen, ensure_ascii=False), flush=True)


def server(target: str) -> str | StdioServerParameters:
    if not target.startswith("stdio:"):
        return target
    command, *args = shlex.split(target.removeprefix("stdio:"))
    return StdioServerParameters(command=command, args=args, env=dict(os.environ))


async def complain(message: object) -> None:
    if isinstance(message, Exception):
        say(protocol_error=str(message))


try:
    from mcp import Client, MCPError
except ImportError:
    from mcp import ClientSession
    from mcp import McpError as MCPError
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client

    class Connection:
        def __init__(self, session: ClientSession, version: str) -> None:
            self.session = session
            self.version = version

        @classmethod
        @contextlib.asynccontextmanager
        async def open(cls, era: str, target: str) -> AsyncIterator["Connection"]:
            if era != "legacy":
                sys.exit(f"this SDK has no {era} era")
            peer = server(target)
            link = streamable_http_client(peer) if isinstance(peer, str) else stdio_client(peer)
            async with link as (read, write, *_):
                async with ClientSession(read, write, message_handler=complain) as session:
                    yield cls(session, (await session.initialize()).protocolVersion)

        async def abandon(self, call: Awaitable[None], scope: anyio.CancelScope) -> None:
            # This SDK only stops waiting when a call's scope is cancelled; to tell the server is up to us.
            request_id = self.session._request_id
            with scope:
                await call
            params = types.CancelledNotificationParams(requestId=request_id, reason="enough")
            await self.session.send_notification(
                types.ClientNotification(types.CancelledNotification(params=params))
            )

    def failed(result: types.CallToolResult) -> bool:
        return result.isError

else:
    class Connection:
        def __init__(self, session: Client) -> None:
            self.session = session
            self.version = session.protocol_version

        @classmethod
        @contextlib.asynccontextmanager
        async def open(cls, era: str, target: str) -> AsyncIterator["Connection"]:
            mode = {"legacy": "legacy", "modern": "auto"}[era]
            async with Client(server(target), mode=mode, message_handler=complain) as session:
                yield cls(session)

        async def abandon(self, call: Awaitable[None], scope: anyio.CancelScope) -> None:
            with scope:
                await call

    def failed(result: types.CallToolResult) -> bool:
        return result.is_error


async def call(connection: Connection, tool: str, args: str, seen=lambda: None) -> None:
    async def progress(number: float, total: float | None, message: str | None) -> None:
        say(progress=number, total=total, message=message)
        seen()

    try:
        result = await connection.session.call_tool(tool, json.loads(args), progress_callback=progress)
    except MCPError as error:
        say(error=error.error.code, message=error.error.message)
        return
    text = "\n".join(block.text for block in result.content if block.type == "text")
    say(result=text, is_error=failed(result))


async def cancel(connection: Connection, tool: str, args: str) -> None:
    left = PROGRESS_BEFORE_CANCEL
    scope = anyio.CancelScope()

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            scope.cancel()

    await connection.abandon(call(connection, tool, args, count), scope)
    if scope.cancelled_caught:
        say(cancelled=True)


async def run(connection: Connection, scenario: str, *calls: str) -> None:
    match scenario, calls:
        case "list", ():
            listed = await connection.session.list_tools()
            say(tools=[tool.name for tool in listed.tools], version=connection.version)
            return
        case "call", (tool, args, *rest):
            await call(connection, tool, args)
        case "cancel", (tool, args, *rest):
            await cancel(connection, tool, args)
        case _:
            sys.exit(f"unknown scenario: {scenario} {calls}")
    if rest:
        await run(connection, "call", *rest)


async def main(era: str, target: str, *scenario: str) -> None:
    async with Connection.open(era, target) as connection:
        await run(connection, *scenario)


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
