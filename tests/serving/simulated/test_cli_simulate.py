"""The verb that starts a simulated server."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from simulated_client import CHAT, ask, get, post

from hotlap.core.errors import InputError
from hotlap.serving import cli_simulate
from hotlap.serving.simulated.facts import ServerFacts
from hotlap.serving.simulated.faults import FAULTS

FACTS = ServerFacts(
    url="http://127.0.0.1:8000", pid=77, model="llama-3-8b", gpu="h200-sxm", tp=2, kv_tokens=900980, context=131072, batch=256, chunk=8192,
    usual=2048, decode_s=0.005, prefill_s=0.0464, faults=("stall",), log="x.jsonl",
)  # fmt: skip


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    cli_simulate.add(parser)
    return parser.parse_args(words)


def test_what_is_printed(golden) -> None:  # type: ignore[no-untyped-def]
    golden("simulate.txt", cli_simulate.listing(FACTS) + "\n")


def test_the_time_after_which_it_ends_is_said() -> None:
    assert cli_simulate.listing(FACTS, 90.0).splitlines()[-1].startswith("ends    after 90 s, by Ctrl-C")


def test_the_help_names_every_fault() -> None:
    parser = argparse.ArgumentParser()
    cli_simulate.add(parser)
    assert all(f"  {fault}" in parser.format_help() for fault in FAULTS)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--tp", "two"), "--tp is a whole number"), (("--port", "x"), "--port is a whole number"), (("--for", "0"), "--for is longer than 0"),
        (("--fault", "stalls"), "did you mean 'stall'"), (("--for", "a while"), "not a quantity"),
    ],
)  # fmt: skip
def test_what_is_asked_wrongly(words: tuple[str, ...], says: str) -> None:
    args = parsed("h200-sxm", "--model", "llama-3-8b", *words)
    args.json = 0
    with pytest.raises(InputError, match=says):
        cli_simulate.run(args)


@pytest.mark.slow("starts a process")
def test_the_verb_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    program = "import argparse, sys\nfrom hotlap.serving import cli_simulate as c\np = argparse.ArgumentParser()\nc.add(p)\n"
    program += "a = p.parse_args(sys.argv[1:])\na.json = 0\nsys.exit(c.run(a))\n"
    words = ["h200-sxm", "--model", "llama-3-8b", "--batch", "16", "--chunk", "512", "--context", "4k", "--fault", "no-usage,drift", "--log", str(tmp_path / "log")]
    process = subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    first = process.stdout.readline()
    url = first.split(" on ")[1].split("/v1")[0]
    facts = ServerFacts(**{**{name: getattr(FACTS, name) for name in FACTS.__struct_fields__}, "url": url})
    assert get(facts, "/health")[0] == 200
    assert post(facts, CHAT, ask(CHAT, "hello", 2)).status == 200
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(30) == 0
    rest = process.stdout.read().splitlines()
    assert rest[-1].startswith("ends")
    assert rest[3] == f"faults  no-usage: {FAULTS['no-usage']}; drift: {FAULTS['drift']}"
    process.stdout.close()
    assert len((tmp_path / "log").read_text().splitlines()) == 1
