"""Searches from beginning to end of a server that a file starts and ends, and of a plan: real processes, on 127.0.0.1."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from hotlap.cli import main
from hotlap.tuning import benches, tape
from hotlap.tuning.applying import Applied, ChosenSwitches
from hotlap.tuning.benches import Ran
from hotlap.tuning.record import TuningAsked

SERVER = """
import json, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send(json.dumps({"object": "list", "data": [{"id": "toy", "object": "model"}]}).encode(), "application/json")
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(float(sys.argv[2]))
        lines = [{"choices": [{"index": 0, "delta": {"content": f" {place}"}, "finish_reason": None}]} for place in range(4)]
        lines += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}]
        lines += [{"choices": [], "usage": {"prompt_tokens": 16, "completion_tokens": 4, "total_tokens": 20}}]
        events = [json.dumps({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "toy", **line}) for line in lines]
        self.send("".join(f"data: {event}\\n\\n" for event in [*events, "[DONE]"]).encode(), "text/event-stream")
    def send(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass

ThreadingHTTPServer.request_queue_size = 64  # ten connections come at once
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answers).serve_forever()
"""
PLAN = 'schema = 1\nname = "small"\n[[case]]\nworkload = "command"\nargv = ["sh", "program.sh"]\n'
TRIES = 6  # of a search that a busy machine ended: it goes on with --resume


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def answered(capsys: pytest.CaptureFixture[str], words: list[str]) -> dict[str, Any]:
    """The answer of a search, which goes on where the machine was too busy for the client."""
    code = main([*words, "--json"])
    for _ in range(TRIES):
        said = capsys.readouterr()
        if code == 0 or "the client was" not in said.err:
            break
        code = main(["tuning", "run", "--resume", "latest", "--json"])
    assert code == 0, said.err
    document: dict[str, Any] = json.loads(said.out)
    return document


@pytest.mark.thorough("some thirty starts of a server: three minutes, and little computing")
@pytest.mark.skipif(not shutil.which("python3"), reason="the server is a Python program")
def test_a_server_is_searched_from_its_file_to_a_confirmed_gain(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    (here / "server.py").write_text(SERVER)
    load = '[load]\narrivals = "closed:10"\nrequests = 10\nwarm_up = 0\ninput = 16\noutput = 4\n'
    server = f'[server]\nurl = "http://127.0.0.1:{port}"\ncommand = ["python3", "server.py", "{port}", "{{delay}}"]\n'
    (here / "server.toml").write_text(server + load)
    words = ["tuning", "run", "server.toml", "--goal", "p99", "--switches", "delay=1.2,0.4", "--budget", "20 min", "--seed", "1"]
    document = answered(capsys, words)
    outcome = document["tuning"]["outcome"]
    assert (outcome["answer"], outcome["winner"]) == ("gain", [{"switch": "delay", "value": "0.4"}])
    assert 0.4 / 1.2 < outcome["high"] < 0.9
    assert {phase for phase, count in outcome["runs"].items() if count} >= {"as_found", "rung", "confirmation"}
    assert [one.name for one in (here / "home" / "runs").iterdir()] == [document["run"]]  # blocks are no runs of their own
    with socket.socket() as asked:  # nobody listens there any more
        assert asked.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.slow("some fifty rounds of a plan")
def test_a_plan_is_searched_to_a_confirmed_gain(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "program.sh").write_text("case $KIND in quick) sleep 0.01;; broken) exit 7;; *) sleep 0.1;; esac\n")
    (here / "plan.toml").write_text(PLAN)
    document = answered(capsys, ["tuning", "run", "plan.toml", "--switches", "KIND=quick,broken", "--budget", "40 s", "--seed", "1"])
    outcome = document["tuning"]["outcome"]
    assert (outcome["answer"], outcome["winner"]) == ("gain", [{"switch": "KIND", "value": "quick"}])
    assert outcome["high"] < 0.9
    why = {one["settings"][0]["value"]: (one["code"], one["reason"]) for one in outcome["dropped"]}
    assert why["broken"][0] == "failed"
    assert "status 7" in why["broken"][1]


def test_a_machine_that_spoils_a_run_drops_no_setting(here: Path) -> None:
    class Busy:
        device, words = None, list[str]()

        def run(self, applied: Applied, number: int, limit_s: float) -> Ran:
            raise benches.Disturbed("the client was late", "use a quieter machine")

    asked = TuningAsked(subject="server.toml", kind="server", goal="p99")
    bench = tape.TuningTape(Busy(), asked, ChosenSwitches({}, {}, []), here)  # type: ignore[arg-type]
    with pytest.raises(benches.Disturbed, match="quieter machine"):
        bench.take((), "as_found")
    assert bench.trials == []
