"""Asks a real model through `agent-hub llm` and `agent-hub call`. Run by run.sh.

Arguments: the agent-hub program, the model's file. Each check says what it saw; the last line counts.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

AGENT_HUB, MODEL = sys.argv[1:]
HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 120  # seconds; whatever takes longer hangs
TOKENS = 40


@contextlib.contextmanager
def program(*command):
    """A program that is ended with the block."""
    pipe = subprocess.PIPE
    child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


@contextlib.contextmanager
def model():
    """The model's server, and its URL. It tells much on stderr, which nobody reads."""
    command = [sys.executable, os.path.join(HERE, "serve.py"), MODEL]
    quiet = subprocess.DEVNULL
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet, text=True
    )
    try:
        yield child, child.stdout.readline().strip()
    finally:
        child.kill()
        child.communicate()


@contextlib.contextmanager
def specialist(endpoint, *options):
    """`agent-hub llm` before the endpoint, and its URL."""
    backend = ["--backend", "openai", "--base-url", endpoint + "/v1", "--model", "m"]
    with program(AGENT_HUB, "llm", "--port", "0", *backend, *options) as child:
        line = child.stderr.readline()
        assert line.startswith("listening on "), line
        yield line.split()[-1]


def ask(url, request):
    arguments = json.dumps({"user_request": request})
    return program(AGENT_HUB, "call", url, "ask", arguments, "--json", "--timeout", str(PATIENCE))


def generates(endpoint):
    with urllib.request.urlopen(endpoint + "/slots", timeout=PATIENCE) as answer:
        return any(slot["is_processing"] for slot in json.load(answer))


def texts(call, count):
    """The first texts of an answer."""
    said = []
    while len(said) < count:
        event = json.loads(call.stdout.readline())
        if event["type"] == "text":
            said.append(event["content"])
    return said


def tokens_arrive_one_by_one(endpoint, _):
    with specialist(endpoint, "--max-tokens", str(TOKENS), "--temperature", "0") as url:
        with ask(url, "Tell me about the sea.") as call:
            said = texts(call, 1)
            assert generates(endpoint), "the first token came only with the last"
            seen = [time.monotonic()]
            events = []
            for line in call.stdout:
                events.append(json.loads(line))
                seen.append(time.monotonic())
            assert call.wait(PATIENCE) == 0, call.stderr.read()
    said += [event["content"] for event in events if event["type"] == "text"]
    # A token may be a part of a character, which comes with the next.
    assert TOKENS // 2 < len(said) <= TOKENS, said
    last = events[-1]
    assert last == {"type": "result", "content": "".join(said), "node": None}, last
    logs = [event["content"] for event in events if event["type"] == "log"]
    assert any(f"{TOKENS} written" in log for log in logs), logs
    # Those that come together come within microseconds.
    steps = sum(later - earlier > 0.0005 for earlier, later in zip(seen, seen[1:]))
    assert steps > TOKENS // 4, f"{len(said)} texts in {steps} steps"
    return f"{len(said)} texts in {steps} steps over {seen[-1] - seen[0]:.2f} s"


def ctrl_c_stops_the_model(endpoint, _):
    with specialist(endpoint) as url, ask(url, "Count to one thousand.") as call:
        texts(call, 5)
        assert generates(endpoint), "it ended by itself"
        call.send_signal(signal.SIGINT)
        sent = time.monotonic()
        while generates(endpoint):
            assert time.monotonic() - sent < 1, "it still generates after a second"
            time.sleep(0.005)
        took = time.monotonic() - sent
        assert call.wait(PATIENCE) == 130, call.returncode
    return f"stopped after {1000 * took:.0f} ms"


def the_next_call_is_answered(endpoint, _):
    with specialist(endpoint, "--max-tokens", "3") as url:
        for _ in range(2):
            with ask(url, "Hello.") as call:
                out, err = call.communicate(timeout=PATIENCE)
                assert call.returncode == 0, err
    return json.loads(out.splitlines()[-1])["content"]


def a_model_that_dies_is_told(endpoint, server):
    with specialist(endpoint) as url, ask(url, "Count to one thousand.") as call:
        texts(call, 5)
        server.kill()
        out, err = call.communicate(timeout=PATIENCE)
        assert call.returncode == 1, err
        last = json.loads(out.splitlines()[-1])
        assert last["type"] == "terminal_error" and endpoint in last["content"], last
    return last["content"]


def main():
    failed = 0
    checks = [
        tokens_arrive_one_by_one,
        ctrl_c_stops_the_model,
        the_next_call_is_answered,
        a_model_that_dies_is_told,  # last: there is no model afterwards
    ]
    with model() as (server, endpoint):
        for check in checks:
            try:
                print(f"ok   {check.__name__}: {check(endpoint, server)}", flush=True)
            except Exception as error:  # a check that fails does not stop the others
                failed += 1
                print(f"FAIL {check.__name__}: {error!r}", flush=True)
    print(f"{len(checks) - failed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
