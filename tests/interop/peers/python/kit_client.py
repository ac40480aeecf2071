"""A user of the Python kit at the other end: calls a tool and decodes the envelopes with json. It says, one JSON
object a line, in order of arrival:

    kit_client.py ERA TARGET TOOL ARGS     {"type": .., "content": .., "node": .., "progress": .., "total": ..} each,
                                           then {"result": text, "is_error": bool}

ERA and TARGET are those of client.py. What is no envelope as the kit writes it ends the program.
"""

import dataclasses
import json
import os
import sys
import traceback

import anyio
from client import Connection, failed, say


@dataclasses.dataclass
class Event:
    type: str
    content: object
    node: str | None = None


def decode(message: str) -> Event:
    envelope = json.loads(message)
    if envelope.pop("v") != 1:
        raise ValueError(message)
    return Event(**envelope)  # with no other member


async def heard(progress: float, total: float | None, message: str | None) -> None:
    try:
        say(**dataclasses.asdict(decode(message)), progress=progress, total=total)
    except Exception:  # the SDK would go on
        traceback.print_exc()
        os._exit(1)


async def main(era: str, target: str, tool: str, args: str) -> None:
    async with Connection.open(era, target) as connection:
        result = await connection.session.call_tool(tool, json.loads(args), progress_callback=heard)
        say(result="".join(block.text for block in result.content), is_error=failed(result))


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
