"""An agent that asks a chat model through an OpenAI-compatible HTTP endpoint. Standard library only.

    ember evaluate public-v1 --out chat.json --deadline 120 --trials 3 --env OPENAI_API_KEY \
        --agent "python examples/chat_model.py --url https://api.example.com/v1 --model some-model"

The key is read from OPENAI_API_KEY if it is set. The model sees the observation and nothing else. An answer that
cannot be read is passed on as it is, so that the evaluator declares it; a request that fails for good ends the agent.
"""

import argparse
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request

INSTRUCTIONS = """You lead the evacuation of a building on fire. Each message is the state of a grid: positions are
[row, col], rows grow to the south. Give every person whose status is "active" one action: stay, north, south, east or
west. People leave by standing on an exit that does not burn. Two people cannot stand in one cell, and fire spreads to
neighbouring cells. Answer with one JSON object from person ID to action, and nothing else."""


def ask(options: argparse.Namespace, observation: dict) -> str:
    """Return the text of the model's answer; a busy server is asked again."""
    body = {
        "model": options.model,
        "temperature": options.temperature,
        "messages": [
            {"role": "system", "content": INSTRUCTIONS},
            {"role": "user", "content": json.dumps(observation, separators=(",", ":"))},
        ],
    }
    headers = {"Content-Type": "application/json"}
    if os.environ.get("OPENAI_API_KEY"):
        headers["Authorization"] = f"Bearer {os.environ['OPENAI_API_KEY']}"
    url = options.url.rstrip("/") + "/chat/completions"
    for attempt in range(options.retries + 1):
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=options.timeout) as response:
                return json.load(response)["choices"][0]["message"]["content"]
        except urllib.error.HTTPError as error:
            if error.code not in (429, 500, 502, 503, 504) or attempt == options.retries:
                raise
            print(f"attempt {attempt + 1}: HTTP {error.code}, asking again", file=sys.stderr, flush=True)
            time.sleep(options.pause * 2**attempt)
    raise AssertionError("unreachable")


def actions_line(text: str) -> str:
    """Return the answer line for a model's text: the object in it, or, without one, the text on one line."""
    found = re.search(r"\{.*\}", text, re.DOTALL)
    try:
        return json.dumps({"actions": json.loads(found[0])}) if found else json.dumps(text)
    except ValueError:
        return json.dumps(text)


def main() -> None:
    """Answer observations until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="the endpoint, up to and without /chat/completions")
    parser.add_argument("--model", required=True)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--timeout", type=float, default=100.0, help="seconds for one request")
    parser.add_argument("--retries", type=int, default=2)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds before the first retry; doubles")
    options = parser.parse_args()
    sys.stdin.readline()
    name = re.sub(r"[^A-Za-z0-9._-]", "-", options.model)[:64]
    print(json.dumps({"agent_protocol_version": "1.0", "name": name, "version": None}), flush=True)
    for line in sys.stdin:
        print(actions_line(ask(options, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
