"""`hotlap serving bench` against the real vLLM, its CPU build with a small model of our own; scripts/vllm_check.sh makes both.

    python benchmarks/serving_vllm.py --python VLLM/bin/python --model FOLDER --keep FOLDER      about six minutes on two quiet cores

`served`: chat and completions, Poisson and closed arrivals: every request is answered, tokens are those of the server's usage and of its
counters, it counts as it goes, TTFT is taken apart by its /metrics, no prompt is found in its cache; with one salt twice, or prefixes
shared, they are. `numbers`: the same events by vLLM's calculate_metrics and by ours, to 1e-9. `queue`: `vllm bench serve` with
`--max-concurrency 1` and ours with the same constant arrivals, on a server that serves one at a time. Runs are kept in FOLDER.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from hotlap.core import objectives, units  # noqa: E402
from hotlap.core.store import bundle as bundles  # noqa: E402
from hotlap.serving import address, definitions, session, show_kind  # noqa: E402
from hotlap.serving.record import Planned, Prompt, Schedule, ServingAsked  # noqa: E402
from hotlap.serving.summary import METRICS  # noqa: E402
from hotlap.serving.verdict import ServingVerdict  # noqa: E402

NAME, PORT, START_S = "tiny", 8000, 900.0
INPUT, OUTPUT = 32, 8
LIMITS = "ttft<=25ms,tpot<=4ms,e2e<=60ms"  # near the middle, so that some meet them and some do not
THEIRS = ("ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue")
CLOSE = 1e-9


class Vllm(NamedTuple):
    """Its environment's Python, the model, and where runs and logs go."""

    python: str
    model: Path
    keep: Path

    def side(self, *arguments: str) -> str:
        """One verb of scripts/vllm_side.py; what it printed."""
        command = [self.python, str(ROOT / "scripts" / "vllm_side.py"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment, check=False)
        if done.returncode:
            sys.exit(f"serving_vllm: vllm_side.py {arguments[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1", "OMP_NUM_THREADS": "1", "HOME": str(self.keep / "home"), "VLLM_LOGGING_LEVEL": "WARNING",
            "VLLM_HOST_IP": "127.0.0.1", "PATH": f"{Path(self.python).parent}:{os.environ['PATH']}",
        }  # fmt: skip
        given = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # else each start compiles it all
        return {**given, **own}


@contextlib.contextmanager
def served(vllm: Vllm, sequences: int) -> Iterator[str]:
    """Its server on loopback, so many sequences at a time; its URL."""
    command = [
        vllm.python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(vllm.model), "--served-model-name", NAME,
        "--host", "127.0.0.1", "--port", str(PORT), "--enforce-eager", "--dtype", "float32", "--max-model-len", "2048",
        "--max-num-seqs", str(sequences), "--enable-prompt-tokens-details", "--disable-uvicorn-access-log",
    ]  # fmt: skip
    began = time.monotonic()
    with open(vllm.keep / f"server-{sequences}.log", "wb") as log, subprocess.Popen(
        command, stdout=log, stderr=subprocess.STDOUT, env=vllm.environment, start_new_session=True, cwd=vllm.keep,
    ) as process:  # fmt: skip
        try:
            while not answers(f"http://127.0.0.1:{PORT}/health"):
                if process.poll() is not None or time.monotonic() - began > START_S:
                    sys.exit(f"serving_vllm: vLLM did not start; see {log.name}")
                time.sleep(0.5)
            print(f"vLLM with {sequences} sequences at a time answers after {time.monotonic() - began:.0f} s", flush=True)
            yield f"http://127.0.0.1:{PORT}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def answers(url: str) -> bool:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def bench(vllm: Vllm, url: str, schedule: Schedule | None = None, **more: Any) -> ServingVerdict:
    """One run of ours, kept."""
    given: dict[str, Any] = {
        "url": url, "model": NAME, "seed": 1, "input_tokens": INPUT, "output_tokens": OUTPUT, "ignore_eos": True, "objectives": LIMITS,
        "api": "completions", **more,
    }  # fmt: skip
    path = session.run(address.resolve(url, False), ServingAsked(**given), session.ServingOptions(vllm.keep, schedule=schedule))
    judged = show_kind.read(bundles.load(path))
    assert judged is not None
    return judged


class Figures:
    """What was asked of a run and whether it holds, a line each."""

    def __init__(self) -> None:
        self.failed = 0

    def say(self, about: str, seen: str, holds: bool) -> None:
        self.failed += not holds
        print(f"{about:<34} {seen:<70} {'holds' if holds else 'does NOT hold'}", flush=True)


def look(figures: Figures, about: str, judged: ServingVerdict) -> None:
    """What is true of any honest run on it."""
    asked, requests, summary = judged.serving.served.asked, judged.serving.requests, judged.summary
    server = judged.serving.served.server
    figures.say(about, f"{summary.outcomes['ok']} of {summary.due} answered", summary.outcomes["ok"] == summary.due == asked.requests)
    equal = sum(request.output_tokens == request.asked_output for request in requests)
    counts = (sum(request.input_tokens or 0 for request in requests), sum(request.output_tokens or 0 for request in requests))
    grown = (server.get("prompt_tokens", -1), server.get("generation_tokens", -1))
    figures.say("  tokens", f"{equal} of {len(requests)} as asked; usage {counts}, its counters grew by {grown}",
                equal == len(requests) and counts == grown)  # fmt: skip
    chunks = [judged.serving.tokens[r.index].sum() + (r.first_tokens or 0) for r in requests if r.index in judged.serving.tokens]
    counted = sum(request.counted for request in requests)
    figures.say("  counted as it goes", f"{counted} of {len(requests)}; {len(chunks)} with chunks of several tokens",
                counted == len(requests) and all(total == OUTPUT for total in chunks))  # fmt: skip
    parts = summary.ttft_parts
    shown = ", ".join(f"{name} {units.show(value, 's')}" for name, value in parts.items())
    figures.say("  TTFT, means", shown, bool(parts) and min(parts.values()) >= 0 and not named(judged, "metrics_disagree"))
    mean = np.mean([request.input_tokens or 0 for request in requests])
    figures.say("  prompts", f"{mean:.1f} tokens where {asked.input_tokens} were asked; found in the cache {summary.cached_share:.1%}",
                abs(mean / asked.input_tokens - 1) < 0.05 and summary.cached_share == 0 and not named(judged, "shared_cache"))  # fmt: skip
    lag = " / ".join(units.show(value, "s", 2) for value in judged.client.lag_s[:3])
    print(f"{'  client':<34} {', '.join(judged.client.flaws) or 'sound'}: sent late by {lag}; {summary.rate_ok:.4g} answers/s", flush=True)


def named(judged: ServingVerdict, code: str) -> bool:
    return any(notice.code == code for notice in judged.summary.notices)


def usual(figures: Figures, vllm: Vllm, url: str, requests: int) -> list[ServingVerdict]:
    """The four runs, and one of many requests that is kept for A/A comparisons."""
    few, runs = requests // 8, []
    runs.append(bench(vllm, url, arrivals="closed:4", requests=few, warm_up=20, api="chat"))
    look(figures, f"chat closed:4 {few}", runs[-1])
    rate = max(round((runs[-1].summary.rate_ok or 2.0) / 2), 1)
    poisson = f"poisson:{rate}"
    for api, arrivals, count in (("chat", poisson, few), ("completions", "closed:4", few), ("completions", poisson, requests)):
        runs.append(bench(vllm, url, arrivals=arrivals, requests=count, api=api, warm_up=20))
        look(figures, f"{api} {arrivals} {count}", runs[-1])
    print(f"kept for A/A comparisons: {runs[-1].serving.run.id}")
    return runs


def cache(figures: Figures, vllm: Vllm, url: str) -> None:
    """The same prompts twice, and prompts that share a prefix."""
    for turn in range(2):
        again = bench(vllm, url, arrivals="closed:4", requests=100, salt="the same", input_tokens=300)
        share = again.summary.cached_share or 0.0
        holds = named(again, "shared_cache") == (turn == 1) == (share > 0.3)
        figures.say(f"one salt, run {turn + 1}", f"found in the cache {share:.1%}", holds)
    planned = tuple(
        Planned(index=index, due_s=index / 20, prompt=Prompt(input_tokens=600, output_tokens=OUTPUT, prefix=(7,))) for index in range(40)
    )
    schedule = Schedule(arrivals="trace", seed=1, planned=planned)
    shared = bench(vllm, url, schedule, arrivals="trace", requests=len(planned), input_tokens=600)
    share = shared.summary.cached_share or 0.0
    figures.say("a trace with a shared prefix", f"found in the cache {share:.1%}; not named: it was asked for",
                0.5 < share < 0.9 and not named(shared, "shared_cache"))  # fmt: skip


def numbers(figures: Figures, vllm: Vllm, runs: list[ServingVerdict]) -> None:
    """Each run's events through vLLM's code and through ours."""
    for judged, theirs in zip(runs, by_vllm(vllm, runs), strict=True):
        ours = definitions.vllm(judged.serving)
        pairs = {"completed": (ours.completed, theirs["completed"]), "failed": (ours.failed, theirs["failed"])}
        for name in ("request", "output"):
            pairs[name] = (getattr(ours, f"{name}_rate"), theirs[f"{name}_throughput"])
        pairs |= {"total": (ours.total_rate, theirs["total_token_throughput"]), "goodput": (ours.goodput, theirs["request_goodput"])}
        for latency in ours.latencies:
            name = latency.name.lower()
            pairs[f"mean {name}"] = (latency.mean_s * 1e3, theirs[f"mean_{name}_ms"])
            pairs[f"std {name}"] = (latency.std_s * 1e3, theirs[f"std_{name}_ms"])
            for value_s, (p, value) in zip(latency.percentiles_s, theirs[f"percentiles_{name}_ms"], strict=True):
                pairs[f"p{p:g} {name}"] = (value_s * 1e3, value)
        apart = {name: abs(a - b) / max(abs(b), 1e-12) for name, (a, b) in pairs.items()}
        worst = max(apart, key=lambda name: apart[name])
        asked = judged.serving.served.asked
        good = f"goodput {pairs['goodput'][0]:.4g} of {ours.request_rate:.4g}"
        seen = f"{len(pairs)} numbers, largest difference {apart[worst]:.1e} ({worst}); {good}"
        figures.say(f"numbers of {asked.api} {asked.arrivals}", seen, len(pairs) == 26 and apart[worst] <= CLOSE)


def by_vllm(vllm: Vllm, runs: list[ServingVerdict]) -> list[dict[str, Any]]:
    """What vLLM's calculate_metrics makes of the events of each run."""
    paths = vllm.keep / "events.json", vllm.keep / "numbers.json"
    paths[0].write_text(json.dumps([events(judged) for judged in runs]))
    vllm.side("metrics", *map(str, paths))
    answer: list[dict[str, Any]] = json.loads(paths[1].read_text())
    for path in paths:
        path.unlink()
    return answer


def events(judged: ServingVerdict) -> dict[str, Any]:
    """Those of a run, as vLLM's client would have seen them."""
    serving = judged.serving
    asked = serving.served.asked
    requests = [request for request in serving.requests if request.index >= asked.warm_up]
    ended = [request.ended_s or request.due_s for request in requests]
    theirs = {"ttft": "ttft", "tpot": "tpot", "e2e": "e2el"}
    return {
        "duration_s": max(ended) - min(request.due_s for request in requests),
        "percentiles": list(definitions.PERCENTILES),
        "goodput": {theirs[limit.metric]: limit.limit_s * 1e3 for limit in objectives.parse(asked.objectives, METRICS)},
        "requests": [
            {
                "ok": request.outcome == "ok", "sent_s": request.sent_s or 0.0,
                "ttft_s": (request.first_s or 0.0) - (request.sent_s or 0.0),
                "latency_s": (request.last_s or 0.0) - (request.sent_s or 0.0),
                "gaps_s": serving.gaps_s.get(request.index, np.empty(0)).tolist(),
                "input_tokens": request.input_tokens or 0, "output_tokens": request.output_tokens or 0,
            }
            for request in requests
        ],
    }  # fmt: skip


def queue(figures: Figures, vllm: Vllm, url: str, requests: int) -> None:
    """What vLLM's client prints when its own queue is outside the clock, with ours beside it: the same arrivals, one at a time."""
    alone = bench(vllm, url, arrivals="closed:1", requests=100).summary.rate_ok or 1.0
    print(f"one at a time: {alone:.4g} requests/s; {requests} requests at constant rates, E2E in ms at p50 / p90 / p99")
    print(f"{'rate':>12}  {'vLLM prints':>24}  {'with its own queue':>24}  {'ours, from due':>24}  vLLM's goodput at e2el<=100 ms")
    for share in (0.5, 1.0, 1.5):
        rate = max(round(alone * share), 1)
        theirs = by_their_client(vllm, url, rate, requests)
        judged = bench(vllm, url, arrivals=f"constant:{rate}", requests=requests)
        e2e = next(one for one in judged.summary.latencies if one.name == "E2E")
        ours = [1e3 * (quantile.value or 0.0) for quantile in e2e.quantiles]
        printed = [theirs[f"p{p}_e2el_ms"] for p in (50, 90, 99)]
        whole = [theirs[f"p{p}_e2el_including_client_queue_ms"] for p in (50, 90, 99)]
        good = f"{theirs['request_goodput']:.4g} of {theirs['request_throughput']:.4g}/s"
        columns = "  ".join(f"{' / '.join(f'{value:.0f}' for value in row):>24}" for row in (printed, whole, ours))
        print(f"{rate:>10}/s  {columns}  {good}", flush=True)
        if share > 1:
            figures.say("above capacity", f"p99 {whole[2] / printed[2]:.1f} times what it prints", whole[2] > 2 * printed[2])


def capacity(figures: Figures, vllm: Vllm, url: str) -> None:
    """The rate that it holds, one request at a time; below what it answers one after another."""
    alone = bench(vllm, url, arrivals="closed:1", requests=400).summary.rate_ok or 1.0
    command = [
        sys.executable, "-m", "hotlap", "serving", "capacity", url, "--model", NAME, "--api", "completions", "--input", str(INPUT),
        "--output", str(OUTPUT), "--ignore-eos", "--slo", "e2e<=100ms", "--attain", "90 %", "--start", f"{alone / 4:.0f}",
        "--max-rate", f"{alone * 2:.0f}", "--requests", "12000", "--seed", "1", "--json",
    ]  # fmt: skip
    environment = {**os.environ, "HOTLAP_HOME": str(vllm.keep), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if not done.stdout:
        figures.say("capacity", done.stderr.strip(), False)
        return
    answer = json.loads(done.stdout)
    subprocess.run([sys.executable, "-m", "hotlap", "show", answer["run"]], env=environment, check=False)
    known = answer["capacity"]["capacity"]
    good, bad = known["known_good"], known["known_bad"]
    holds = done.returncode == 0 and None not in (good, bad) and good < bad <= alone * 1.05
    figures.say("capacity", f"[{good:.4g}, {bad:.4g}]/s at 90 %; one after another {alone:.4g}/s" if holds else f"[{good}, {bad}]/s", holds)


def by_their_client(vllm: Vllm, url: str, rate: int, requests: int) -> dict[str, Any]:
    result = vllm.keep / "their_client.json"
    vllm.side(
        "bench", "--backend", "openai", "--base-url", url, "--model", NAME, "--tokenizer", str(vllm.model), "--dataset-name", "random",
        "--random-input-len", str(INPUT), "--random-output-len", str(OUTPUT), "--num-prompts", str(requests), "--request-rate", str(rate),
        "--burstiness", "inf", "--max-concurrency", "1", "--ignore-eos", "--percentile-metrics", ",".join(THEIRS),
        "--metric-percentiles", "50,90,99", "--goodput", "e2el:100", "--save-result", "--result-dir", str(vllm.keep),
        "--result-filename", result.name, "--disable-tqdm", "--seed", str(rate),
    )  # fmt: skip
    answer: dict[str, Any] = json.loads(result.read_text())
    result.unlink()
    return answer


def cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="of vLLM's environment")
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--keep", required=True, type=Path)
    parser.add_argument("--requests", type=int, default=3000, help="of the run kept for A/A comparisons (default: 3000)")
    parser.add_argument("--only", choices=("served", "queue", "capacity"), help="`served` with `numbers`, `queue` or `capacity`")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the server is ended then too
    (args.keep / "home").mkdir(parents=True, exist_ok=True)
    vllm, figures = Vllm(str(Path(args.python).absolute()), args.model.resolve(), args.keep.resolve()), Figures()
    names = "vllm, torch, transformers"
    code = f"import {names}; print(', '.join(f'{{one.__name__}} {{one.__version__}}' for one in ({names})))"
    done = subprocess.run([vllm.python, "-c", code], capture_output=True, text=True, env=vllm.environment, check=True)
    machine = f"Python {platform.python_version()}; {cpu()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(f"{done.stdout.strip().splitlines()[-1]}, {machine}", flush=True)
    if args.only in (None, "served"):
        with served(vllm, 16) as url:
            runs = usual(figures, vllm, url, args.requests)
            cache(figures, vllm, url)
        numbers(figures, vllm, runs)
    if args.only != "served":
        with served(vllm, 1) as url:
            if args.only != "capacity":
                queue(figures, vllm, url, args.requests // 5)
            if args.only != "queue":
                capacity(figures, vllm, url)
    print(f"{figures.failed} of the figures above do not hold" if figures.failed else "all figures hold")
    return 1 if figures.failed else 0


if __name__ == "__main__":
    sys.exit(main())
