"""Two runs made by hand of figures that were seen: a processor through OpenCL, and a GPU with sensors and a sweep.

Samples and readings are complete and go through the real folding and summary; limits stand here as they were found, so that
what is printed does not change when the model learns something.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotlap.core import work
from hotlap.core.analysis.state import state
from hotlap.core.record import (
    Case,
    Check,
    Cpu,
    Device,
    Gap,
    Limit,
    Machine,
    MeasureOptions,
    Notice,
    Plan,
    Readings,
    Row,
    RunRecord,
    Samples,
    Status,
    Stop,
    Term,
)
from hotlap.core.stats.summary import summarize
from hotlap.core.store.bundle import Bundle
from hotlap.core.store.select import results

PER_ROUND = 40
CEILING = "no memory bandwidth is published for this host"


@dataclass(frozen=True)
class Seen:
    """A case, what it reached, and what it was compared with."""

    workload: str
    given: dict[str, Any]
    value: float = 0.0
    limit: float | None = None
    against: str = "unknown"
    cause: str = "unknown"
    detail: str = ""
    noise: float = 0.002
    notices: tuple[tuple[str, str], ...] = ()
    status: Status = "measured"
    reason: str = ""
    terms: tuple[Term, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def case(self) -> Case:
        return Case(workload=self.workload, params=work.find(self.workload).parse(self.given))


CLOCK = Term(name="clock", value=3.70e9, unit="Hz", source="measured in the run: a chain of dependent multiplications, ± 0.3 %")
FMA32 = Term(name="fp32 per clock and core", value=32.0, unit="FLOP", source="AMD, Software Optimization Guide for Zen 4, 2.11")
CORES = Term(name="cores", value=2.0, unit="", source="as the system reports it")

CPU_CASES = [
    Seen("stream", {"op": "copy", "size": "1 GiB"}, 25.9e9, 28.0e9, "ceiling", "bandwidth", "8 % below the best memory rate of the run"),
    Seen("stream", {"op": "triad", "size": "1 GiB"}, 28.0e9, 28.0e9, "ceiling", "bandwidth", "the best memory rate of the run"),
    Seen("stream", {"op": "triad", "dtype": "fp64", "size": "1 GiB"}, 27.8e9, 28.0e9, "ceiling", "bandwidth", "at the best rate of the run"),
    Seen("stream", {"op": "read", "size": "32 KiB"}, 412e9, 474e9, "bound", "launch", "a call takes 80 ns, of which launching is a part"),
    Seen("stream", {"op": "read", "size": "512 KiB"}, 198e9, 205e9, "ceiling", "cache", "level 2 sets the pace", noise=0.004),
    Seen("stream", {"op": "read", "size": "8 MiB"}, 91.6e9, 91.6e9, "ceiling", "cache", "level 3 sets the pace",
         noise=0.02, notices=(("shared_device", "in 4 of 6 rounds: tasks waited for a processor 12% of the time"),)),
    Seen("stream", {"op": "write", "size": "1 GiB"}, status="invalid", reason="element 77 is 0.5, not 0.25 (in 1 of 6 rounds)"),
    Seen("chase", {"size": "16 KiB"}, 1.09e-9, cause="latency", detail="each load waits for the one before it"),
    Seen("chase", {"size": "256 MiB"}, 118e-9, cause="latency", detail="each load waits for the one before it", noise=0.01),
    Seen("fma", {"dtype": "fp64"}, 115.6e9, 118.4e9, "bound", "at_limit", "97.6 % of the bound at 3.70 GHz", terms=(CLOCK, CORES)),
    Seen("fma", {"dtype": "fp32"}, 231.0e9, 236.8e9, "bound", "at_limit", "97.5 % of the bound at 3.70 GHz", terms=(CLOCK, CORES, FMA32)),
    Seen("fma", {"dtype": "fp16"}, status="not_run", reason="the device has no fp16 arithmetic (cl_khr_fp16 is missing)"),
    Seen("gemm", {"dtype": "fp32", "m": 2048, "n": 2048, "k": 2048}, status="not_run",
         reason="opencl has no matrix library; target torch:cpu has one"),
    Seen("intensity", {"fmas": 1, "size": "256 MiB"}, 6.6e9, 7.0e9, "ceiling", "bandwidth", "0.25 FLOP/B: memory sets the pace"),
    Seen("intensity", {"fmas": 4, "size": "256 MiB"}, 26.1e9, 28.0e9, "ceiling", "bandwidth", "1 FLOP/B: memory sets the pace"),
    Seen("intensity", {"fmas": 16, "size": "256 MiB"}, 98.0e9, 112e9, "ceiling", "bandwidth", "4 FLOP/B: memory sets the pace"),
    Seen("intensity", {"fmas": 64, "size": "256 MiB"}, 167e9, 236.8e9, "bound", "latency",
         "71 % of the bound: one chain per element leaves units waiting", terms=(CLOCK, CORES, FMA32)),
    Seen("launch", {"mode": "single"}, 24.1e-6, cause="launch", noise=0.11,
         notices=(("bimodal", "in 5 of 6 rounds: samples gather around two values"),)),
    Seen("launch", {"mode": "stream"}, 4.23e-6, cause="launch", noise=0.012),
    Seen("sync", {}, 210e-9, cause="latency", noise=0.006),
    Seen("atomic", {"contention": "same"}, 38.2e6, cause="latency", noise=0.009),
    Seen("transfer", {"direction": "h2d", "size": "64 MiB"}, 9.84e9, 28.0e9, "ceiling", "latency", "one thread copies", noise=0.008),
    Seen("transfer", {"direction": "d2h", "size": "64 MiB"}, 10.1e9, 28.0e9, "ceiling", "latency", "one thread copies", noise=0.008,
         notices=(("drift", "in 2 of 6 rounds: +3.1% from first to last sample"),)),
]

HBM = Term(name="memory bandwidth", value=4.8e12, unit="B/s", source="NVIDIA H200 datasheet, 2024")
SM_CLOCK = Term(name="highest clock", value=1.98e9, unit="Hz", source="NVIDIA H100 tuning guide; read from the driver")


def _swept() -> list[Seen]:
    rates = [1.4, 2.9, 5.2, 7.9, 9.6, 10.4, 10.6, 10.3, 7.2, 4.9, 4.36, 4.31, 4.30]
    sizes = [2**n for n in range(18, 31)]
    return [
        Seen("stream", {"op": "read", "size": s}, r * 1e12, 4.8e12 if s > 2**26 else None, "bound" if s > 2**26 else "unknown",
             "bandwidth" if s > 2**26 else "cache", f"{r:.1f} TB/s", terms=(HBM,) if s > 2**26 else ())
        for s, r in zip(sizes, rates, strict=True)
    ]


def _chased() -> list[Seen]:
    times = [38, 38, 39, 41, 128, 138, 141, 143, 190, 310, 405]
    return [Seen("chase", {"size": 2**n}, t * 1e-9, cause="latency", noise=0.003) for n, t in zip(range(14, 36, 2), times, strict=False)]


def _laddered() -> list[Seen]:
    found = []
    for fmas in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        bound = min(4.8e12 * fmas / 4, 66.9e12)
        found.append(Seen(
            "intensity", {"fmas": fmas, "size": "256 MiB"}, bound * (0.9 if fmas < 40 else 0.94), bound, "bound",
            "bandwidth" if bound < 66.9e12 else "arithmetic", "compared with the roofline", terms=(HBM, SM_CLOCK),
        ))
    return found


GPU_CASES = [
    *_swept(),
    Seen("stream", {"op": "copy", "size": "1 GiB"}, 4.28e12, 4.8e12, "bound", "bandwidth", "89 % of the published bandwidth", terms=(HBM,)),
    Seen("stream", {"op": "triad", "size": "1 GiB"}, 4.31e12, 4.8e12, "bound", "at_limit", "90 % of the published bandwidth", terms=(HBM,)),
    Seen("fma", {"dtype": "fp64"}, 31.8e12, 33.5e12, "bound", "at_limit", "95 % of the peak", terms=(SM_CLOCK,)),
    Seen("fma", {"dtype": "fp32"}, 63.0e12, 66.9e12, "bound", "at_limit", "94 % of the peak", terms=(SM_CLOCK,)),
    Seen("fma", {"dtype": "fp16"}, 121e12, 133.8e12, "bound", "at_limit", "90 % of the peak", terms=(SM_CLOCK,)),
    Seen("gemm", {"dtype": "bf16"}, 744e12, 989.4e12, "bound", "power", "the power cap held the clock at 1.59 GHz, 80 % of its highest",
         noise=0.012, notices=(("throttled", "in 6 of 6 rounds: held back by software power cap"),
                             ("low_clock", "in 6 of 6 rounds: median clock 1.59 GHz, 80% of its maximum")), terms=(SM_CLOCK,)),
    Seen("gemm", {"dtype": "fp32"}, 51.2e12, 66.9e12, "expected", "arithmetic", "77 % of the expected rate", terms=(SM_CLOCK,)),
    *_laddered(), *_chased(),
    Seen("launch", {"mode": "single"}, 7.9e-6, cause="launch", noise=0.006),
    Seen("launch", {"mode": "graph"}, 1.31e-6, cause="launch", noise=0.003),
    Seen("transfer", {"direction": "h2d", "size": "64 MiB"}, 55.3e9, 63.0e9, "bound", "bandwidth", "88 % of PCI Express 5.0 × 16"),
    Seen("transfer", {"direction": "d2h", "size": "64 MiB"}, 54.9e9, 63.0e9, "bound", "bandwidth", "87 % of PCI Express 5.0 × 16"),
]

CPU = Device(
    target="opencl", index=0, name="AMD EPYC 9V74 80-Core Processor", kind="cpu", vendor="AuthenticAMD",
    driver="Portable Computing Language 3.0", memory_bytes=8 * 2**30, compute_units=2, clock_max_hz=2.6e9, cache_bytes=32 * 2**20,
)
GPU = Device(
    target="simulated", index=0, name="NVIDIA H200", kind="gpu", vendor="NVIDIA", uuid="GPU-5a1e0f00-0000-4000-8000-000000000001",
    pci_id="10de:2335", driver="580.95", memory_bytes=141 * 10**9, compute_units=132, clock_max_hz=1.98e9, cache_bytes=50 * 2**20,
    machine="h200-sxm",
)


def _machine(device: Device) -> Machine:
    return Machine(
        host="node17", os="Debian GNU/Linux 12", kernel="6.1.0-18", virtual="kvm", memory_bytes=8 * 2**30, devices=[device],
        cpu=Cpu(
            name="AMD EPYC 9V74 80-Core Processor", vendor="AuthenticAMD", family=25, model=17, cores=2, threads=2,
            flags=["avx2", "avx512f"], cache_bytes={"l1d": 32768, "l2": 2**20, "l3": 32 * 2**20},
        ),
        software={"python": "3.11.2", "numpy": "2.4.6", "pyopencl": "2026.1.4"}, settings={"POCL_MAX_PTHREAD_COUNT": "2"},
    )


def _seconds(seen: Seen, value: float) -> float:
    """Per call, from the metric: it is proportional to the time or to one over it."""
    spec = work.find(seen.workload)
    one = spec.value(1.0, seen.case.params)
    return one / value if spec.better == "higher" else value / one


def _samples(seen: Seen, device: Device, number: int, began_s: float, draw: random.Random) -> Samples:
    blank = {"case": seen.case.id, "device": device.key, "round": number, "seed": number}
    notices = [Notice(code=name, seen=detail.partition(": ")[2]) for name, detail in seen.notices if number < _rounds_of(detail)]
    if seen.status == "not_run" or (seen.status == "invalid" and number == 3):
        return Samples(**blank, status=seen.status, reason=seen.reason.partition(" (in")[0])
    level = (seen.value or 20e9) * (1 + seen.noise * draw.uniform(-1, 1))
    two = 0.3 if any(f.code == "bimodal" for f in notices) else 0.0
    values = [level * (1 + draw.gauss(0, seen.noise / 2) + two * (draw.random() < 0.4)) for _ in range(PER_ROUND)]
    clock = device.clock_max_hz or 2e9
    return Samples(
        **blank, values=[float(f"{_seconds(seen, v):.6g}") for v in values], calls=8, method="event-batch", overhead_s=2.1e-6,
        resolution_s=1e-9, wall_ratio=0.999, warmup_samples=3, began_s=began_s, ended_s=began_s + 0.35, autocorrelation=0.1, notices=notices,
        clocks_hz=[round(clock * 1.42, -6)] * 3 if device.kind == "cpu" else [],
        variant="fp32 × 8, 4 chains" if seen.workload == "fma" else "",
        check=Check(passed=True, what="4096 elements against NumPy", error=0.0, tolerance=1e-6), bookkeeping_s=6e-6,
    )


def _rounds_of(detail: str) -> int:
    words = detail.split()
    return int(words[1]) if words[:1] == ["in"] else 99


def _readings(device: Device, number: int, began_s: float, ended_s: float, draw: random.Random) -> list[Readings]:
    if device.kind == "cpu":
        missing = Readings(sensor="power_w", device="host", status="not_supported", reason="no RAPL in this virtual machine")
        return [missing] if number == 0 else []
    times = [began_s + 0.1 * i for i in range(int((ended_s - began_s) * 10))]
    curves = {"clock_hz.sm": (1.98e9, 4e7), "power_w": (480.0, 90.0), "temperature_c": (61.0, 3.0), "utilization": (0.97, 0.02)}
    return [
        Readings(sensor=name, device=device.key, times_s=[round(t, 2) for t in times], round=number,
                 values=[round(level + draw.uniform(-1, 1) * swing, 3) for _ in times])
        for name, (level, swing) in curves.items()
    ]


def bundle(device: Device, cases: list[Seen], rounds: int = 6, labels: dict[str, str] | None = None) -> Bundle:
    """A whole run, the same on every call."""
    draw, clock_s, samples, readings = random.Random(7), 1.0, [], []
    for number in range(rounds):
        start_s = clock_s
        for seen in draw.sample(cases, len(cases)):
            samples.append(_samples(seen, device, number, clock_s, draw))
            clock_s += 0.4
        readings += _readings(device, number, start_s, clock_s, draw)
    plan = Plan(name="quick", about="a minute", cases=[s.case for s in cases], measure=MeasureOptions(precision=0.05, rounds_max=6))
    run = RunRecord(
        id=f"20261121-103000-{'c0ffee' if device.kind == 'cpu' else 'b0bca7'}", began="2026-11-21T10:30:00Z", ended="2026-11-21T10:30:53Z",
        stops=[Stop("rounds_max")], hotlap="0.1.0", plan=plan, machine=_machine(device), target=device.target, devices=[device.key],
        labels=labels if labels is not None else {"cluster": "A"}, seed=42,
    )
    return Bundle(run, Path("/nowhere") / run.id, samples, readings)


def rows(kept: Bundle, cases: list[Seen]) -> list[Row]:
    """The bundle's results with the limits that stand above."""
    by_id = {seen.case.id: seen for seen in cases}
    found = []
    for result in results(kept):
        seen, spec = by_id[result.case.id], work.find(result.case.workload)
        per_round = [[spec.value(s, result.case.params) for s in r.values] for r in result.rounds if r.status == "measured" and r.values]
        summary = summarize(result.values, per_round, kept.run.plan.measure.precision, result.better)
        gap = _gap(seen, summary.median if result.status == "measured" else None)
        found.append(Row(
            case=result.case, device=result.device, label=work.label(result.case), result=result, summary=summary, gap=gap,
            verdict=state(result, summary, gap),
        ))
    return found


def _gap(seen: Seen, median: float | None) -> Gap:
    if seen.limit is None or median is None:
        limit = Limit(kind="unknown", reason=CEILING if seen.workload == "stream" else "no sourced figure for this on this machine")
        return Gap(cause=seen.cause, basis="throttled", names={"seen": seen.detail}, limit=limit)
    limit = Limit(
        kind="bound" if seen.against == "bound" else "expected" if seen.against == "expected" else "unknown", provenance=list(seen.terms),
        reason="" if seen.against in ("bound", "expected") else CEILING, limiter={"stream": "memory", "transfer": "link"}.get(seen.workload, "arithmetic unit"),
    )
    spec = work.find(seen.workload)
    share = median / seen.limit if spec.better == "higher" else seen.limit / median
    return Gap(
        share=share, reference_kind=seen.against, limit_value=seen.limit, cause=seen.cause, basis="throttled", names={"seen": seen.detail}, limit=limit,  # type: ignore[arg-type]
    )


def cpu() -> Bundle:
    return bundle(CPU, CPU_CASES)


def gpu() -> Bundle:
    return bundle(GPU, GPU_CASES)
