"""What `hotlap serving ab` promises: false alarms between blocks of one server, and how many requests find a change of 10 %.

    python benchmarks/serving_ab.py                      a simulated server, 4 live repetitions
    python benchmarks/serving_ab.py --records FOLDER     with the requests of a bundle of `serving bench`, or of a folder of bundles

`A/A`: 200 comparisons of a server with itself. Its requests are dealt out in blocks, in the order in which they were due and from a random
place on, to side A or B at random, as the verb would have sent them; once more with all blocks shuffled. Asked: at most 16 of 200 are
called different (nominal 5 %). `planted`: the same, with all of B's times longer by 10 %; asked: found with at most 400 requests a side
(median). `live`: a simulated server, and itself behind a proxy that makes each answer take 10 % longer. All of it goes through the code of
the verb: its blocks, and core's test.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from hotlap.core.analysis import turns  # noqa: E402
from hotlap.core.trials import ab  # noqa: E402
from hotlap.serving import ab_blocks, ab_live  # noqa: E402
from hotlap.serving.ab_blocks import Block  # noqa: E402
from hotlap.serving.ab_config import SideLoad  # noqa: E402
from hotlap.serving.record import Request  # noqa: E402
from hotlap.serving.simulated import options, starting  # noqa: E402

PLANTED = 1.10
TRIALS = (  # what, the factor of B's times, the threshold, whether blocks are shuffled
    ("A/A, threshold 0", 1.0, 0.0, False), ("A/A, shuffled", 1.0, 0.0, True), ("A/A, threshold 2.5 %", 1.0, 0.025, False),
    ("planted 10 %", PLANTED, 0.025, False),
)  # fmt: skip


class Dealt:
    """Blocks of recorded requests in the order in which they were due, from a random place on; `shuffled`: in a random order. Whichever
    side asks gets the next."""

    def __init__(self, requests: Sequence[Request], size: int, seed: int, factor: float, shuffled: bool = False) -> None:
        drawn = random.Random(seed)
        begins = drawn.randrange(len(requests))
        turned = [*requests[begins:], *requests[:begins]]
        self.blocks = [turned[place : place + size] for place in range(0, len(turned) - size + 1, size)]
        if shuffled:
            drawn.shuffle(self.blocks)
        self.left, self.factor = iter(self.blocks), factor

    def __call__(self, side: str, pair: int | None) -> Block:
        taken = next(self.left)
        return Block([slower(one, self.factor) for one in taken] if side == "B" else taken)


def slower(request: Request, factor: float) -> Request:
    """All of its times that much longer after it was due."""
    times = {name: getattr(request, name) for name in ("sent_s", "headers_s", "first_s", "last_s", "ended_s")}
    return replace(request, **{name: request.due_s + factor * (at - request.due_s) for name, at in times.items() if at is not None})


def compared(
    source: ab_blocks.BlockSource, load: SideLoad, metric: str, asked: ab.AbOptions, tally: ab_blocks.Tally | None = None
) -> tuple[str, int]:
    """Answer and pairs, as the verb gives them."""
    trial = ab_blocks.BlockTrial(load, [metric], source, tally or ab_blocks.Tally(), warm_up=1)
    a, b = (ab_blocks.arm(side, side, trial) for side in "AB")
    with tempfile.TemporaryDirectory() as home:
        done = ab.ab(a, b, asked, Path(home))
    judged = turns.comparison(done.pairs[0].a, done.pairs[0].b, done.turns, done.stop)
    return judged.answer, judged.n_a


def dealt(requests: Sequence[Request], metric: str, trial: tuple[str, float, float, bool], args: argparse.Namespace) -> dict[str, Any]:
    """Many comparisons of recorded requests."""
    answers, used, load = Counter[str](), list[int](), SideLoad(requests=args.size)
    for number in range(args.repeats):
        seed = args.seed + number
        source = Dealt(requests, args.size, seed, trial[1], trial[3])
        asked = ab.AbOptions(difference=0.1, min_effect=trial[2], most=len(source.blocks) // 2 - 1, order_seed=seed)
        answer, pairs = compared(source, load, metric, asked)
        answers[answer] += 1
        used.append(pairs * args.size)
    return {"answers": dict(answers), "median_requests": float(np.median(used))}


def recorded(folder: Path) -> dict[str, list[Request]]:
    """Answered requests of bundles, in the order in which they were due."""
    places = [folder] if (folder / "run.json").is_file() else sorted(one for one in folder.iterdir() if (one / "run.json").is_file())
    every = {}
    for place in places:
        block = ab_live.read(place, ["e2e"])
        asked = json.loads((place / "serving.json").read_text())["asked"]
        name = f"{asked['api']} {asked['arrivals']} {asked['input_tokens']}+{asked['output_tokens']}"
        client = f"; the client: {', '.join(block.flaws)}" if block.flaws else ""
        every[f"{name}, {len(block.requests)} requests{client}"] = list(block.requests)
    return every


SERVER = "h200-sxm?model=llama-3-8b&tp=1"
CONFIGURATION = """
[server]
{server}
[load]
arrivals = "closed:4"
input = 128
output = {output}
requests = 10
"""


def simulated(requests: int, output: int = 32) -> list[Request]:
    """Recorded on a simulated server, for want of others."""
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-m", "hotlap", "serving", "bench", f"simulated:{SERVER}", "--arrivals", "closed:8", "--input", "128"]
        command += ["--output", str(output), "--requests", str(requests), "--warm-up", "20"]
        environment = {**os.environ, "HOTLAP_HOME": home, "PYTHONPATH": str(ROOT / "src")}
        subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL)  # exit code 3 where the client was at fault
        (place,) = (Path(home) / "runs").iterdir()
        return list(ab_live.read(place, ["e2e"]).requests)


def live(metric: str, output: int) -> str:
    """The verb, with a simulated server and the same one behind the proxy."""
    with starting.started(options.parse(f"simulated:{SERVER}")) as server, tempfile.TemporaryDirectory() as home:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        proxy = [sys.executable, str(ROOT / "benchmarks" / "serving_proxy.py"), server.facts.url]
        proxy += ["--port", str(port), "--factor", str(PLANTED)]
        sides = {"a": f'url = "{server.facts.url}"', "b": f'url = "http://127.0.0.1:{port}"\ncommand = {json.dumps(proxy)}'}
        for name, text in sides.items():
            (Path(home) / f"{name}.toml").write_text(CONFIGURATION.format(server=text, output=output))
        command = [sys.executable, "-m", "hotlap", "serving", "ab", "a.toml", "b.toml", "--resolve", "10 %", "--metric", metric, "--json"]
        environment = {**os.environ, "HOTLAP_HOME": home, "PYTHONPATH": str(ROOT / "src")}
        ran = subprocess.run(command, env=environment, cwd=home, check=False, capture_output=True, text=True)
        if not ran.stdout:
            sys.exit(f"serving_ab: {ran.stderr}")
        document = json.loads(ran.stdout)
    entry = document["cases"][0]
    change = "no change known" if entry["value"] is None else f"{1 / entry['value'] - 1:+.1%}"
    return f"{entry['state']}, {change}, {document['sent']['B']} requests on side B, {len(document['left_out'])} pairs left out"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, help="a bundle of serving bench, or a folder of bundles")
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--live", type=int, default=4, help="repetitions on a simulated server")
    parser.add_argument("--size", type=int, default=10, help="requests of a block")
    parser.add_argument("--metric", default="e2e,ttft")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    every = recorded(args.records) if args.records else {"simulated server closed:8 128+32": simulated(2000)}
    for name, requests in every.items():
        print(f"recorded: {name}")
        for metric in args.metric.split(","):
            print(f"  {metric}, blocks of {args.size}", flush=True)
            for trial in TRIALS:
                one = dealt(requests, metric, trial, args)
                alarms = one["answers"].get("slower", 0) + one["answers"].get("faster", 0)
                detail = ", ".join(f"{answer} {count}" for answer, count in sorted(one["answers"].items()))
                requests_a_side = f"{one['median_requests']:.0f} requests a side (median)"
                print(f"    {trial[0]:<22}{alarms:>4} of {args.repeats} called different; {requests_a_side}; {detail}", flush=True)
    if args.live:
        print("live: a simulated server and itself behind a proxy that adds 10 %")
    for _ in range(args.live):
        print(f"  {live('e2e', 192)}", flush=True)


if __name__ == "__main__":
    main()
