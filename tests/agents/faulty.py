"""An agent that stays, and does one thing wrong. Run as `faulty.py FAULT [STEP] [TOKEN]`."""

import json
import os
import pathlib
import sys
import time

FAULT = sys.argv[1]
STEP = int(sys.argv[2]) if len(sys.argv) > 2 else 0
SLEEPER = [sys.executable, "-c", "import time; time.sleep(300)", *sys.argv[3:]]


def say(data):
    sys.stdout.buffer.write(data if isinstance(data, bytes) else json.dumps(data).encode() + b"\n")
    sys.stdout.buffer.flush()


def start(**options):
    import subprocess  # late, for most agents end without it

    subprocess.Popen(SLEEPER, **options)


def fail(fault, actions, seen):
    """Answer one step wrongly, or never."""
    if fault == "late":
        time.sleep(300)
    elif fault == "half-line":
        say(b'{"actions":{')
        time.sleep(300)
    elif fault == "crash":
        os._exit(3)
    elif fault == "closed-pipe":
        os.close(1)
        time.sleep(300)
    elif fault == "child-holds-the-pipe":
        start()
        os._exit(0)
    elif fault == "own-session":
        start(start_new_session=True)
        os._exit(0)
    elif fault == "daemon":
        for _ in range(2):
            if os.fork():
                os._exit(0)
            os.setsid()
        os.execv(SLEEPER[0], SLEEPER)
    elif fault == "children-while-late":
        for own in (False, True):
            start(start_new_session=own)
        time.sleep(300)
    elif fault == "deaf":
        for own in (False, True):
            start(start_new_session=own)
        os.kill(os.getpid(), 19)
    lines = {
        "garbage": b"\x00\x01 garbage\n",
        "empty-line": b"\n",
        "null": b"null\n",
        "null-actions": b'{"actions":null}\n',
        "nan": b'{"actions":NaN}\n',
        "bad-utf8": b'{"actions":{"\xff":"stay"}}\n',
        "byte-order-mark": b"\xef\xbb\xbf" + json.dumps({"actions": actions}).encode() + b"\n",
        "long-line": b'{"actions":"' + b"x" * 10_000_000 + b'"}\n',
        "long-spaces": json.dumps({"actions": actions}).encode() + b" " * (1 << 20) + b"\n",
        "brackets": b"[" * 100_000 + b"\n",
        "digits": b'{"actions":' + b"9" * 5000 + b"}\n",
        "duplicate-key": b'{"actions":{},"actions":' + json.dumps(actions).encode() + b"}\n",
        "unknown-key": json.dumps({"actions": actions, "why": "because"}).encode() + b"\n",
        "list": json.dumps({"actions": list(actions)}).encode() + b"\n",
        "missing-action": json.dumps({"actions": dict(list(actions.items())[1:])}).encode() + b"\n",
        "unknown-action": json.dumps({"actions": dict.fromkeys(actions, "up")}).encode() + b"\n",
        "unknown-person": json.dumps({"actions": actions | {"nobody": "stay"}}).encode() + b"\n",
        "everybody": json.dumps({"actions": {p["id"]: "stay" for p in seen["people"]}}).encode() + b"\n",
        "two-lines": 2 * (json.dumps({"actions": actions}).encode() + b"\n"),
    }
    say(lines[fault])


def main():
    if FAULT == "silent":
        time.sleep(300)
    sys.stdin.readline()
    hellos = {
        "hello-null": b"null\n",
        "hello-version": b'{"agent_protocol_version":"2.0","name":"a","version":null}\n',
        "hello-name": b'{"agent_protocol_version":"1.0","name":"a b","version":null}\n',
        "hello-extra": b'{"agent_protocol_version":"1.0","name":"a","version":null,"extra":1}\n',
        "hello-long-id": json.dumps({"agent_protocol_version": "1.0", "name": "a" * 40, "version": "b" * 40}).encode()
        + b"\n",
        "hello-changes": json.dumps(
            {"agent_protocol_version": "1.0", "name": f"agent-{time.monotonic_ns()}", "version": None}
        ).encode()
        + b"\n",
    }
    say(hellos.get(FAULT, b'{"agent_protocol_version":"1.0","name":"faulty","version":"1"}\n'))
    if FAULT == "talkative":
        sys.stderr.write("x" * 3_000_000)
        sys.stderr.flush()
    if FAULT == "look-around":
        found = {
            "folder": [str(path) for path in pathlib.Path().iterdir()],
            "environment": dict(os.environ),
            "arguments": sys.argv[3:],
        }
        pathlib.Path(sys.argv[4]).write_text(json.dumps(found | {"cwd": str(pathlib.Path.cwd())}))
    for line in sys.stdin:
        seen = json.loads(line)
        actions = {p["id"]: "stay" for p in seen["people"] if p["status"] == "active"}
        fault = FAULT
        if FAULT == "random":
            kinds = ["crash", "null", "garbage", "closed-pipe", "missing-action", "two-lines"]
            draw = int.from_bytes(os.urandom(4), "big")
            fault = kinds[draw % len(kinds)] if draw >> 16 < 6554 else None
        honest = FAULT.startswith(("hello", "talk", "look", "none"))
        if fault is not None and not honest and (seen["step"] == STEP or FAULT == "random"):
            print(f"about to fail: {fault}", file=sys.stderr, flush=True)
            fail(fault, actions, seen)
        else:
            say({"actions": actions})


main()
