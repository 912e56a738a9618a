"""`ember evaluate` and `ember pack`, end to end."""

import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from ember_ref.canonical import write_canonical
from ember_ref.suite import load_pack, load_suite
from scenarios.bundled import suite_path
from scoring.evaluation import authenticate, open_result
from scoring.runner import failures_path, measures_path

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FAULTY = f"{sys.executable} -I -S {ROOT / 'tests' / 'agents' / 'faulty.py'}"
VECTORS = ROOT / "tests" / "vectors" / "score"


def index_of(episode):
    return episode.scheduled.index


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A suite of one small scenario."""
    folder = tmp_path_factory.mktemp("suite")
    public = load_suite(suite_path("public-v1"))
    entry = public.suite.entries[0]
    write_canonical(folder / f"{entry.scenario_id}.json", public.scenarios[entry.scenario_id].to_dict())
    write_canonical(
        folder / "suite.json", {"suite_version": "1.0", "suite_id": "small", "scenarios": [entry.to_dict()]}
    )
    return folder


def test_a_pack_is_built_checked_and_evaluated_on_both_backends(ember, tmp_path, small):
    pack = tmp_path / "pack.json"
    (line,) = ember("pack", "build", small, "--seeds", "0,1,2", "--id", "p", "--out", pack, "--json").lines
    assert line == {"pack_id": "p", "digest": load_pack(pack).pack_hash, "episodes": 3}
    assert ember("pack", "check", pack, "--json").lines == [line]
    by_reference = tmp_path / "ref.json"
    ember("pack", "build", small, "--seeds", "0:3", "--id", "p", "--out", by_reference, "--backend", "ref")
    assert by_reference.read_bytes() == pack.read_bytes()
    for backend in ("ref", "jax"):
        result = ember(
            "evaluate", pack, "--policy", "congestion-aware-v1", "--out", tmp_path / f"{backend}.r.json",
            "--backend", backend, "--json",
        )  # fmt: skip
        assert result.code == 0, result.err
        assert result.lines == [{"model_id": "congestion-aware-v1", "episodes": 3, "failures": 0}]
    assert (tmp_path / "ref.r.json").read_bytes() == (tmp_path / "jax.r.json").read_bytes()
    assert list(authenticate(open_result(tmp_path / "ref.r.json"), load_pack(pack), extract=index_of)) == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("policy", [
    "always-stay-v1", "random-legal-v1", "nearest-exit-greedy-v1", "static-shortest-path-v1",
    "fire-aware-shortest-path-v1", "congestion-aware-v1", "adv-block-scrub.random-legal-v1",
])  # fmt: skip
def test_every_policy_on_the_public_suite_writes_the_same_bytes_on_both_backends(ember, tmp_path, policy):
    for backend in ("ref", "jax"):
        out = tmp_path / f"{backend}.json"
        options = ("--policy", policy, "--seeds", "0,1,2", "--out", out, "--backend", backend)
        assert ember("evaluate", "public-v1", *options).code == 0
    assert (tmp_path / "ref.json").read_bytes() == (tmp_path / "jax.json").read_bytes()


def test_random_seeds_of_a_pack_are_distinct_and_not_printed(ember, tmp_path, small):
    out = tmp_path / "pack.json"
    result = ember("pack", "build", small, "--seeds", "random:6", "--id", "p", "--out", out, "--backend", "ref")
    seeds = [episode.seed for episode in load_pack(out).manifest.episodes]
    assert len(set(seeds)) == 6
    assert max(seeds) > 2**50
    assert not any(str(seed) in result.out + result.err for seed in seeds)


def test_packs_that_share_an_episode_are_told(ember, tmp_path, small):
    for name, seeds in {"a": "0,1", "b": "1,2", "c": "3"}.items():
        out = tmp_path / f"{name}.json"
        ember("pack", "build", small, "--seeds", seeds, "--id", name, "--out", out, "--backend", "ref")
    shared = ember("pack", "check", tmp_path / "a.json", "--overlap", tmp_path / "b.json", "--json")
    assert (shared.code, shared.lines[0]["shared_episodes"]) == (1, 1)
    apart = ember("pack", "check", tmp_path / "a.json", "--overlap", tmp_path / "c.json", "--json")
    assert (apart.code, apart.lines[0]["shared_episodes"]) == (0, 0)


def test_a_pack_with_another_fire_or_other_constants_fails(ember, tmp_path):
    document = json.loads((VECTORS / "pack.json").read_bytes())
    fires = document["fire_worlds"]
    pack = tmp_path / "pack.json"
    write_canonical(pack, document | {"fire_worlds": [fires[1], *fires[1:]]})
    result = ember("pack", "check", pack)
    assert result.code == 1
    assert "fire_worlds[0]" in result.err
    write_canonical(pack, document | {"constants_digest": "0" * 64})
    assert ember("pack", "check", pack).code == 1
    pack.write_bytes(b"{}\n")
    assert ember("pack", "check", pack).code == 2


def test_failed_episodes_are_no_failed_command(ember, tmp_path, small):
    out = tmp_path / "r.json"
    command = f"{FAULTY} null 1"
    result = ember("evaluate", small, "--agent", command, "--seeds", "0,1", "--out", out, "--json")
    assert result.code == 0
    assert result.lines == [{"model_id": "faulty-1", "episodes": 2, "failures": 2}]
    assert failures_path(out).read_bytes() == b'[{"0":"invalid_output","1":"invalid_output"}]\n'
    assert "2 of 2 episodes without a result (2 invalid_output)" in result.err
    assert "--trials 3" in result.err
    assert "about to fail: null" in (tmp_path / "r.agent.log").read_text()


def test_trials_write_a_result_each(ember, tmp_path, small):
    out = tmp_path / "r.json"
    result = ember(
        "evaluate", small, "--agent", f"{FAULTY} none", "--out", out, "--trials", 3, "--model-id", "m", "--json"
    )
    assert [line["model_id"] for line in result.lines] == ["m"] * 3
    assert "--trials" not in result.err
    for name in ("r.json", "r.2.json", "r.3.json"):
        assert open_result(tmp_path / name).model_id == "m"
        assert failures_path(tmp_path / name).read_bytes() == b"[{}]\n"
        assert json.loads(measures_path(tmp_path / name).read_bytes())["timeouts"] == 0


def test_a_killed_evaluation_goes_on_and_counts_nothing_twice(tmp_path, small):
    out = tmp_path / "r.json"
    words = [sys.executable, "-m", "ember_cli", "evaluate", str(small), "--seeds", "0:40", "--out", str(out)]
    words[1:3] = ["-c", "from ember_cli.main import main; main()"]
    words += ["--agent", f"{FAULTY} none", "--deadline", "20", "--json"]
    first = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    journal = tmp_path / "r.partial.json"
    until = time.monotonic() + 30
    while time.monotonic() < until and not (journal.exists() and journal.read_bytes().count(b"\n") > 5):
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    done = journal.read_bytes().count(b"\n") - 1
    assert 0 < done < 40
    assert not out.exists()
    second = subprocess.run(words, cwd=ROOT, capture_output=True, check=True)
    assert json.loads(second.stdout)["episodes"] == 40
    indices = list(authenticate(open_result(out), load_suite(small), extract=index_of, workers=1))
    assert indices == list(range(40))


def test_calls_that_cannot_be_meant_are_refused(refused, tmp_path, small):
    out = tmp_path / "r.json"
    common = ("--out", out)
    assert "either" in refused("evaluate", small, *common)
    assert "either" in refused("evaluate", small, *common, "--policy", "always-stay-v1", "--agent", "sh")
    assert "pack has its own seeds" in refused(
        "evaluate", VECTORS / "pack.json", *common, "--seeds", "1", "--policy", "always-stay-v1"
    )
    assert "unknown" in refused("evaluate", small, *common, "--policy", "best-v1")
    assert "not found" in refused("evaluate", small, *common, "--agent", "no-such-program-anywhere", "--trials", 3)
    assert "--model-id" in refused("evaluate", small, *common, "--policy", "always-stay-v1", "--model-id", "a b")
    assert "--reuse" in refused("evaluate", small, *common, "--policy", "always-stay-v1", "--reuse")
    assert "no folder" in refused("evaluate", small, "--out", tmp_path / "no" / "r.json", "--agent", "sh")
    assert "random:N" in refused("pack", "build", small, "--seeds", "random:0", "--id", "p", "--out", out)
    assert "--id" in refused("pack", "build", small, "--seeds", "1", "--id", "a b", "--out", out)
    assert "is a pack" in refused("pack", "build", VECTORS / "pack.json", "--seeds", "1", "--id", "p", "--out", out)
    assert list(tmp_path.iterdir()) == []


class Endpoint(http.server.BaseHTTPRequestHandler):
    """A chat endpoint that leads everyone nowhere, refuses its first request, and keeps what it was asked."""

    asked: list

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.path, self.headers["Authorization"], body))
        if len(self.asked) == 1:
            self.send_response(503)
            self.end_headers()
            return
        seen = json.loads(body["messages"][1]["content"])
        actions = {person["id"]: "stay" for person in seen["people"] if person["status"] == "active"}
        content = f"Here you are:\n```json\n{json.dumps(actions)}\n```"
        if body["model"] == "poet":
            content = "Roses are red."
        data = json.dumps({"choices": [{"message": {"role": "assistant", "content": content}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize(("model", "failures"), [("guide-1", 0), ("poet", 1)])
def test_an_agent_that_asks_a_chat_model(ember, tmp_path, small, monkeypatch, model, failures):
    handler = type("Handler", (Endpoint,), {"asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    try:
        url = f"http://127.0.0.1:{server.server_port}/v1"
        command = f"{sys.executable} {EXAMPLES / 'chat_model.py'} --url {url} --model {model} --pause 0.01"
        out = tmp_path / "r.json"
        (line,) = ember(
            "evaluate", small, "--agent", command, "--out", out, "--env", "OPENAI_API_KEY", "--json"
        ).lines  # fmt: skip
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert line == {"model_id": model, "episodes": 1, "failures": failures}
    path, key, body = handler.asked[-1]
    assert path == "/v1/chat/completions"
    assert key == "Bearer secret"
    assert body["model"] == model
    assert body["messages"][0]["role"] == "system"
    if failures:
        assert failures_path(out).read_bytes() == b'[{"0":"invalid_output"}]\n'
    else:
        (episode,) = open_result(out).episodes()
        assert len(handler.asked) == len(episode.record.steps) + 1  # the refused one was asked again
    assert os.environ["OPENAI_API_KEY"] not in out.read_text()
