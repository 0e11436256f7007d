"""Faults of a lying server are named, each by its own code, in `--json` and in the text; none of them on the honest server."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.serving_faults import CODES, bench, tokens_agree
from hotlap.serving.simulated.faults import FAULTS

TOGETHER = (  # faults that do not hide each other, arrivals, requests
    (("role-first", "reasoning", "cached", "drift", "duplicate", "refuse"), "poisson:30", "40"),
    (("batched", "early-end", "reset"), "closed:4", "40"), (("batched", "duplicate"), "closed:4", "20"),
    (("no-usage", "stall"), "constant:20", "20"),
    (("slow-start",), "gamma:24,2", "240"), ((), "poisson:30", "60"),
)  # fmt: skip
WORDS = {  # of each, in the text
    "role-first": "an event without text came", "batched": "a chunk has", "no-usage": "does not say how many tokens it made",
    "reasoning": "answers began with reasoning", "early-end": "the server ended them", "refuse": "10 of 40 requests were refused",
    "reset": "10 of 40 connections were closed in the middle", "cached": "in the server's prefix cache although this run sends no prompt twice",
    "stall": "5 answers paused for more than", "slow-start": "times as long as those after them",
    "duplicate": "more chunks with text than tokens", "drift": "the server's counters say",
}  # fmt: skip


def test_each_of_the_twelve_is_somewhere() -> None:
    assert sorted({fault for faults, *_ in TOGETHER for fault in faults}) == sorted(FAULTS) == sorted(CODES) == sorted(WORDS)


@pytest.mark.slow("a server and a client of their own")
@pytest.mark.parametrize(("faults", "arrivals", "requests"), TOGETHER, ids=["+".join(case[0]) or "honest" for case in TOGETHER])
def test_faults_are_named_and_no_others(
    faults: tuple[str, ...], arrivals: str, requests: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that holds server or client for a second does worse than these faults: then once more."""
    monkeypatch.setenv("COLUMNS", "9999")
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    for seed in (5, 6, 7):
        codes, text, path = bench(faults, arrivals, requests, seed, tmp_path)
        if codes & set(CODES.values()) == {CODES[fault] for fault in faults}:
            break
    assert codes & set(CODES.values()) == {CODES[fault] for fault in faults}
    assert [fault for fault in faults if WORDS[fault] not in text] == []
    if not faults:
        assert tokens_agree(path, tmp_path / "served.jsonl") == (60, 60)
    if "refuse" in faults:
        assert "40 due: 30 answered, 10 refused" in text
