"""The queue that a client has to count: E2E of `hotlap serving bench` against a server's own log, on the same clock.

    python benchmarks/serving_queue.py                                            four minutes
    python benchmarks/serving_queue.py --vllm VLLM/bin/python --model FOLDER      with vLLM's client beside it

A server of known service time (tests/serving/sse_server.py, 200 ms; 1 or 16 at a time) logs when it handed the last byte of each answer to
the socket. Poisson arrivals below, at and above its capacity. Asked: p50, p90 and p99 of E2E within 2 % of those of *completion −
scheduled arrival*; where the client says that it was late or starved nothing is judged. Beside it: what `vllm bench serve` with
`--max-concurrency` prints at the same rate, and what it was with its own queue (its draws are its own).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.serving.sse_server import MODEL, SseServer, serving  # noqa: E402

from hotlap.core.store import bundle as bundles  # noqa: E402
from hotlap.serving import address, session, show_kind  # noqa: E402
from hotlap.serving.record import ServingAsked  # noqa: E402

SERVICE_S, REQUESTS = 0.2, {1: 150, 16: 1600}
SHARES, QUANTILES = (0.5, 1.0, 1.5), (0.5, 0.9, 0.99)
CLOSE = 0.02


def ours(server: SseServer, rate: float, requests: int, home: Path) -> tuple[list[float], list[float], str]:
    """Quantiles of E2E in ms as they are printed, those of the server's log, and what is wrong with the client."""
    asked = ServingAsked(
        url=server.url, model=MODEL, api="completions", arrivals=f"poisson:{rate:g}", requests=requests, seed=3, input_tokens=16,
        output_tokens=2,
    )  # fmt: skip
    judged = show_kind.read(bundles.load(session.run(address.resolve(server.url, False), asked, session.ServingOptions(home))))
    assert judged is not None
    salt, origin_s = judged.serving.served.asked.salt, judged.serving.served.origin_s or 0.0
    logged = [1e3 * (server.completed_s[f"hotlap-{salt}-{r.index}"] - origin_s - r.due_s) for r in judged.serving.requests]
    e2e = next(one for one in judged.summary.latencies if one.name == "E2E")
    printed = [1e3 * (quantile.value or 0.0) for quantile in e2e.quantiles]
    return printed, np.quantile(logged, QUANTILES, method="inverted_cdf").tolist(), ", ".join(judged.client.flaws) or "sound"


def theirs(python: str, model: str, server: SseServer, rate: float, requests: int, workers: int) -> tuple[list[float], list[float]]:
    """E2EL in ms as vLLM's client prints it, and with the time in its own queue."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [python, str(ROOT / "scripts" / "vllm_side.py"), "bench", "--backend", "openai", "--base-url", server.url, "--model", MODEL,
             "--tokenizer", model, "--dataset-name", "random", "--random-input-len", "16", "--random-output-len", "2",
             "--num-prompts", str(requests), "--request-rate", str(rate), "--max-concurrency", str(workers),
             "--percentile-metrics", "e2el,e2el_including_client_queue",
             "--metric-percentiles", "50,90,99", "--save-result", "--result-dir", folder, "--result-filename", "r.json", "--disable-tqdm"],
            capture_output=True, check=True, env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "HOME": folder},
        )  # fmt: skip
        answer = json.loads(Path(folder, "r.json").read_text())
    return [answer[f"p{p}_e2el_ms"] for p in (50, 90, 99)], [answer[f"p{p}_e2el_including_client_queue_ms"] for p in (50, 90, 99)]


def shown(values: list[float]) -> str:
    return f"{' / '.join(f'{value:.0f}' for value in values):>22}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm", default="", metavar="PYTHON", help="of vLLM's environment, as scripts/vllm_check.sh makes it")
    parser.add_argument("--model", default="", metavar="FOLDER", help="of its tokenizer")
    args = parser.parse_args()
    if not args.vllm:
        print("vLLM's client is not run: --vllm names no Python that has it; scripts/vllm_check.sh makes one")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; service {SERVICE_S * 1e3:.0f} ms; E2E in ms at p50 / p90 / p99")
    beside = f"  {'vLLM prints':>22}  {'with its own queue':>22}" if args.vllm else ""
    print(f"{'at a time, rate':>16}  {'completion − scheduled':>22}  {'ours':>22}  largest difference, client{beside}", flush=True)
    failed = unjudged = 0
    with tempfile.TemporaryDirectory() as home:
        for workers, requests in REQUESTS.items():
            for share in SHARES:
                rate = share * workers / SERVICE_S
                with serving(service_s=SERVICE_S, workers=workers) as server:
                    printed, logged, client = ours(server, rate, requests, Path(home))
                apart = max(abs(a / b - 1) for a, b in zip(printed, logged, strict=True))
                judged = apart <= CLOSE or client == "sound"
                failed += apart > CLOSE and judged
                unjudged += not judged
                line = f"{workers:>6}, {rate:>6g}/s  {shown(logged)}  {shown(printed)}  {apart:>8.2%} {client:<23}"
                if args.vllm:
                    with serving(service_s=SERVICE_S, workers=workers) as server:
                        line += "  ".join(map(shown, theirs(args.vllm, args.model, server, rate, requests, workers)))
                print(line, flush=True)
    rows = len(REQUESTS) * len(SHARES)
    print(f"{rows - failed - unjudged} of {rows} within {CLOSE:.0%}, {failed} further, {unjudged} not judged: the client was at fault")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
