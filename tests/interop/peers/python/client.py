"""A client of the official SDK that tells what it saw, one JSON object a line, in order of arrival.

    client.py TARGET list                             {"tools": [...]}
    client.py TARGET call TOOL ARGS [TOOL ARGS]...    in one session, one after the other; for each
                                                      {"progress": .., "total": .., "message": ..} each, then
                                                      {"result": text, "is_error": bool} or {"error": code, "message": ..}
    client.py TARGET cancel TOOL ARGS [TOOL ARGS]...  as call, but cancels the first call after its third
                                                      progress message: {"cancelled": true} in place of a result

TARGET is a URL or `stdio:COMMAND ARGS...`, one argument, in which quotes work as in a shell. What the SDK
complains of is {"protocol_error": ..}.
"""

import json
import os
import shlex
import sys

import anyio
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

PROGRESS_BEFORE_CANCEL = 3


def say(**seen: object) -> None:
    print(json.dumps(seen, ensure_ascii=False), flush=True)


def link(target: str):
    if not target.startswith("stdio:"):
        return streamable_http_client(target)
    command, *args = shlex.split(target.removeprefix("stdio:"))
    return stdio_client(StdioServerParameters(command=command, args=args, env=dict(os.environ)))


async def complain(message: object) -> None:
    if isinstance(message, Exception):
        say(protocol_error=str(message))


async def call(session: ClientSession, tool: str, args: str, seen=lambda: None) -> None:
    async def progress(number: float, total: float | None, message: str | None) -> None:
        say(progress=number, total=total, message=message)
        seen()

    try:
        result = await session.call_tool(tool, json.loads(args), progress_callback=progress)
    except McpError as error:
        say(error=error.error.code, message=error.error.message)
        return
    text = "\n".join(block.text for block in result.content if block.type == "text")
    say(result=text, is_error=result.isError)


async def cancel(session: ClientSession, tool: str, args: str) -> None:
    # This SDK only stops waiting when a call's scope is cancelled; to tell the server is up to us.
    request_id = session._request_id
    left = PROGRESS_BEFORE_CANCEL

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            scope.cancel()

    with anyio.CancelScope() as scope:
        await call(session, tool, args, count)
    if not scope.cancelled_caught:
        return
    params = types.CancelledNotificationParams(requestId=request_id, reason="enough")
    await session.send_notification(
        types.ClientNotification(types.CancelledNotification(params=params))
    )
    say(cancelled=True)


async def run(session: ClientSession, scenario: str, *calls: str) -> None:
    match scenario, calls:
        case "list", ():
            listed = await session.list_tools()
            say(tools=[tool.name for tool in listed.tools])
            return
        case "call", (tool, args, *rest):
            await call(session, tool, args)
        case "cancel", (tool, args, *rest):
            await cancel(session, tool, args)
        case _:
            sys.exit(f"unknown scenario: {scenario} {calls}")
    if rest:
        await run(session, "call", *rest)


async def main(target: str, *scenario: str) -> None:
    async with link(target) as (read, write, *_):
        async with ClientSession(read, write, message_handler=complain) as session:
            await session.initialize()
            await run(session, *scenario)


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
