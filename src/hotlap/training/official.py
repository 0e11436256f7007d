"""The same scenarios by LoadGen itself (`pip install mlcommons-loadgen`), with its settings overridden: its log says what it decided."""

from __future__ import annotations

import queue
import re
import tempfile
import threading
from pathlib import Path
from typing import Any, NamedTuple

from hotlap.training.loadgen_rules import RunRules
from hotlap.training.scenarios import Answer, ScenarioLoad, ScenarioTimes

SCENARIOS = {"single": "SingleStream", "multi": "MultiStream", "offline": "Offline", "server": "Server"}
POOL = 16  # samples that LoadGen draws from
_NEEDED = re.compile(r"at least (\d+) more queries|at least (\d+) queries for early stopping")
_SAMPLE = re.compile(r'"Sample","cat":"default","ph":"b".*?"ts":([0-9.]+),.*?"query_seq":([0-9]+),.*?"complete_ns":([0-9]+)')


class Judged(NamedTuple):
    """A run by LoadGen. `needed`: queries in all that its early stopping asks for, where it says so."""

    measured: ScenarioTimes
    valid: bool
    needed: int | None
    summary: str


def version() -> str:
    """"" where it is not installed."""
    import importlib.metadata

    try:
        import mlperf_loadgen  # noqa: F401 - a broken one is none

        return importlib.metadata.version("mlcommons-loadgen")
    except (ImportError, importlib.metadata.PackageNotFoundError):
        return ""


def settings(rules: RunRules, load: ScenarioLoad) -> Any:
    """LoadGen's own, for a run by these rules."""
    import mlperf_loadgen as loadgen

    asked = loadgen.TestSettings()
    asked.scenario, asked.mode = getattr(loadgen.TestScenario, SCENARIOS[rules.scenario]), loadgen.TestMode.PerformanceOnly
    asked.min_duration_ms, asked.max_duration_ms = round(rules.min_s * 1e3), 0
    asked.min_query_count = rules.min_queries
    asked.sample_index_rng_seed = asked.schedule_rng_seed = asked.qsl_rng_seed = load.seed
    if rules.scenario == "single":
        asked.single_stream_target_latency_percentile = rules.percentile
        asked.single_stream_expected_latency_ns = round(5e8 / load.rate)  # half: it makes queries for twice the time, and runs out of fewer
    elif rules.scenario == "multi":
        asked.multi_stream_target_latency_percentile = rules.percentile
        asked.multi_stream_expected_latency_ns = round(4e9 / load.rate)
    elif rules.scenario == "offline":
        asked.offline_expected_qps = load.rate
    else:
        asked.server_target_qps, asked.server_target_latency_percentile = load.rate, rules.percentile
        asked.server_target_latency_ns = round((rules.bound_s or 0.0) * 1e9)
    return asked


def run(answer: Answer, rules: RunRules, load: ScenarioLoad, most_queries: int = 0) -> Judged:
    """One scenario. Queries of server are answered by a thread of ours, as by our own generator; all others where LoadGen issues them."""
    import mlperf_loadgen as loadgen

    asked = settings(rules, load)
    asked.max_query_count = most_queries
    waiting, broken, counts = queue.SimpleQueue[Any](), list[BaseException](), [0, 0]

    def serve(queries: Any) -> None:
        if not broken:
            try:
                answer(queries[0].index, len(queries))
            except BaseException as error:
                broken.append(error)
        loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(one.id, 0, 0) for one in queries])

    def issue(queries: Any) -> None:
        counts[0], counts[1] = counts[0] + 1, counts[1] + len(queries)
        if rules.scenario == "server":
            waiting.put(queries)
        else:
            serve(queries)

    def work() -> None:
        while (queries := waiting.get()) is not None:
            serve(queries)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    with tempfile.TemporaryDirectory(prefix="hotlap-loadgen-") as folder:
        output, log = loadgen.LogOutputSettings(), loadgen.LogSettings()
        output.outdir = folder
        log.log_output, log.enable_trace, log.log_mode = output, True, loadgen.LoggingMode.AsyncPoll
        system, library = loadgen.ConstructSUT(issue, lambda: None), loadgen.ConstructQSL(POOL, POOL, lambda _: None, lambda _: None)
        try:
            loadgen.StartTestWithLogSettings(system, library, asked, log, "")
        finally:
            waiting.put(None)
            worker.join()
            loadgen.DestroyQSL(library)
            loadgen.DestroySUT(system)
        if broken:
            raise broken[0]
        return _read(Path(folder), rules, counts)


def _read(folder: Path, rules: RunRules, counts: list[int]) -> Judged:
    summary = (folder / "mlperf_log_summary.txt").read_text()
    queries = _queries((folder / "mlperf_log_trace.json").read_text())
    begun = [begin_s for begin_s, _ in queries]
    first_s, ended_s = min(begun, default=0.0), max((begin_s + latency_s for begin_s, latency_s in queries), default=0.0)
    issued_s = (ended_s if rules.scenario == "offline" else max(begun, default=0.0)) - first_s
    latencies = [latency_s for _, latency_s in queries]
    more = _NEEDED.search(summary)
    needed = None if more is None else int(more[1]) + counts[0] if more[1] else int(more[2])
    return Judged(ScenarioTimes(latencies, counts[1], ended_s - first_s, issued_s), "Result is : VALID" in summary, needed, summary)


def _queries(trace: str) -> list[tuple[float, float]]:
    """When each query was due, and its latency: that of its slowest sample. LoadGen's trace is no JSON (it quotes keys twice)."""
    slowest: dict[int, tuple[float, float]] = {}
    for at_us, number, latency_ns in _SAMPLE.findall(trace):
        known = slowest.get(int(number), (0.0, 0.0))[1]
        slowest[int(number)] = float(at_us) / 1e6, max(known, int(latency_ns) / 1e9)
    return [slowest[number] for number in sorted(slowest)]
