"""Twelve faults of a lying server: each must be named by `hotlap serving bench`, and none on the honest one.

    python benchmarks/serving_faults.py                      five processes of arrivals, three seeds: a quarter of an hour
    python benchmarks/serving_faults.py --seeds 1 --arrivals poisson:20

The server is the simulated one, llama-3-8b on an H200. A fault is named where the code that is its own stands in `--json` and its words in
the text. Of the honest server none of these codes may appear, and the tokens counted must be those that its log has, in every request.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hotlap.cli import main as hotlap
from hotlap.core.store import bundle as bundles
from hotlap.serving import reading
from hotlap.serving.simulated import starting
from hotlap.serving.simulated.faults import FAULTS
from hotlap.serving.simulated.options import ServerOptions

CODES = {
    "role-first": "role_first", "batched": "several_tokens", "no-usage": "no_usage", "reasoning": "reasoning_first",
    "early-end": "early_end", "refuse": "refused", "reset": "cut_off", "cached": "shared_cache", "stall": "stalled",
    "slow-start": "slow_start", "duplicate": "more_chunks", "drift": "metrics_disagree",
}  # fmt: skip
ARRIVALS = ("constant:20", "poisson:20", "gamma:20,0.5", "closed:4", "ramp:10-30,12s")
ASKED = ["--input", "128", "--output", "32"]
REQUESTS, LONG = "60", "240"  # a slow start needs an end of it


def bench(faults: Sequence[str], arrivals: str, requests: str, seed: int, home: Path) -> tuple[set[str], str, Path]:
    """Codes of the answer, the text that `show` prints, and the bundle."""
    os.environ["HOTLAP_HOME"] = str(home)
    log = home / "served.jsonl"
    log.unlink(missing_ok=True)
    options = ServerOptions(gpu="h200-sxm", model="llama-3-8b", faults=tuple(faults), log=str(log))
    with starting.started(options) as server:
        load = ["--arrivals", arrivals, "--requests", requests, "--seed", str(seed), *ASKED]
        answer = _printed(["serving", "bench", server.facts.url, *load, "--json"])
    document = json.loads(answer)
    codes = {notice["code"] for notice in document["serving"]["summary"]["notices"]}
    return codes, _printed(["show", "latest"]), home / "runs" / document["run"]


def _printed(words: list[str]) -> str:
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        hotlap(words)
        out.flush()
    return out.buffer.getvalue().decode()


def tokens_agree(path: Path, log: Path) -> tuple[int, int]:
    """Requests whose tokens, in and out, are those of the server's log, and requests that were answered."""
    serving = reading.read(bundles.load(path))
    assert serving is not None
    logged = {line["id"]: line for line in map(json.loads, log.read_text().splitlines())}
    salt, right = serving.served.asked.salt, 0
    for request in serving.requests:
        line = logged.get(f"hotlap-{salt}-{request.index}", {})
        right += (request.input_tokens, request.output_tokens) == (line.get("input_tokens"), line.get("output_tokens"))
    return right, len(serving.requests)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="of each process of arrivals (default: 3)")
    parser.add_argument("--arrivals", action="append", help="a process of arrivals (default: five)")
    args = parser.parse_args()
    cases = [(arrivals, seed) for arrivals in args.arrivals or ARRIVALS for seed in range(1, args.seeds + 1)]
    missed, right, counted = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        print(f"load      {', '.join(map(str, os.getloadavg()))} at the beginning, {os.cpu_count()} cores")
        print("fault       named by         in       also")
        for fault in FAULTS:
            found = [bench([fault], arrivals, LONG if fault == "slow-start" else REQUESTS, seed, home)[0] for arrivals, seed in cases]
            named = sum(CODES[fault] in codes for codes in found)
            missed += named < len(cases)
            also = sorted(set().union(*found) - {CODES[fault]})
            print(f"{fault:<11} {CODES[fault]:<16} {named} of {len(cases)}  {', '.join(also)}", flush=True)
        false = set[str]()
        for arrivals, seed in cases:
            codes, _, path = bench([], arrivals, LONG, seed, home)
            false |= codes & set(CODES.values())
            agree, every = tokens_agree(path, home / "served.jsonl")
            right, counted = right + agree, counted + every
        print(f"honest      {', '.join(sorted(false)) or 'none of them'} in {len(cases)}")
        print(f"tokens      of {right} of {counted} requests of the honest server are those of its log")
    return 0 if not missed and not false and right == counted else 1


if __name__ == "__main__":
    sys.exit(main())
