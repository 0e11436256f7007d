"""Years of runs in one home: what each verb costs in time and memory, and whether it finds what is wrong in them.

    python benchmarks/soak.py [--hosts 200] [--days 50] [--samples 10] [--seed 2029] [--home FOLDER] [--json]

A run per host and day: 5 cases × 5 rounds of samples and a stretch of readings, written by the bundle's own writer. One host loses
4 % in one case on one day, one is 5 % slow in another, one gets slower day by day. Each verb runs in a fresh process. With --home the
runs are kept there, and used again when they are there already.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from msgspec.structs import replace

import hotlap
from hotlap.core import work
from hotlap.core.record import Case, Cpu, Device, Machine, Plan, Readings, RunRecord, Samples, Stop
from hotlap.core.store import bundle, paths

BEGAN = datetime(2026, 6, 1, 6, tzinfo=UTC)
ROUNDS = 5
NODE, RUN_NOISE, ROUND_NOISE, NOISE = 0.002, 0.005, 0.003, 0.003
STEP, SLOW, DRIFT = 17, 42, 99  # hosts, as far as there are so many
CASES = [
    Case(workload=name, params=work.find(name).parse(given))
    for name, given in (
        ("stream", {"op": "copy", "size": "1 GiB"}), ("stream", {"op": "triad", "size": "1 GiB"}),
        ("gemm", {"m": 4096, "n": 4096, "k": 4096}), ("transfer", {"direction": "h2d", "size": "64 MiB"}),
        ("launch", {"mode": "stream"}),
    )
]
SECONDS = (6e-4, 9e-4, 2.6e-3, 1.5e-3, 4e-6)
TRIAD, GEMM, COPY = 1, 2, 0
PLAN = Plan(name="nightly", cases=CASES)


def host(number: int) -> str:
    return f"node{number:04}"


def machine(number: int) -> Machine:
    gpu = Device(
        target="cuda", index=0, name="NVIDIA H200", kind="gpu", vendor="NVIDIA", uuid=f"GPU-{number:08x}-0000", serial=f"16{number:08}",
        pci_address="0000:1b:00.0", pci_id="10de:2335", driver="NVIDIA 570.86", memory_bytes=150 * 10**9, compute_units=132,
        clock_max_hz=1.98e9, cache_bytes=60 * 2**20, machine="h200-sxm",
        facts={"nvml": {"power_limit_w": 700.0, "ecc": "on", "vbios": "96.00.99", "pcie_width": 16}, "compute_capability": "9.0"},
    )
    flags = ["fma", "avx", "avx2", "avx512f", "avx512_bf16", "avx512vl", "avx512_vnni", "amx_bf16"]
    cpu = Cpu(name="Xeon 8480", vendor="GenuineIntel", family=6, model=143, cores=112, threads=224, flags=flags)
    software = {"cuda": "12.8", "torch": "2.6", "python": "3.11.2", "numpy": "2.4", "glibc": "2.36"}
    settings = {"governor": "performance", "transparent huge pages": "madvise", "numa balancing": "0", "swappiness": "10"}
    return Machine(
        host=host(number), os="Debian 12", kernel="6.1", cpu=cpu, memory_bytes=2**41, devices=[gpu], software=software, settings=settings,
    )


def slower(number: int, day: int, days: int) -> dict[int, float]:
    """What is wrong with a host on a day: times by case."""
    if number == STEP and day >= days * 3 // 5:
        return {TRIAD: 1.04}
    if number == SLOW:
        return {GEMM: 1.05}
    return {COPY: 1 + 0.04 * day / days} if number == DRIFT else {}


def write(home: Path, hosts: int, days: int, samples: int, seed: int) -> float:
    """The home, one day after the other; seconds that took."""
    rng, began = np.random.default_rng(seed), time.perf_counter()
    os.fsync = lambda _: None  # type: ignore[assignment]  # a benchmark's home may be lost
    machines, nodes = [machine(n) for n in range(hosts)], rng.normal(0, NODE, (hosts, len(CASES)))
    for day in range(days):
        for number in range(hosts):
            moment = BEGAN + timedelta(days=day, seconds=7 * number)
            level = np.array(SECONDS) * np.exp(nodes[number] + rng.normal(0, RUN_NOISE, len(CASES)))
            for case, factor in slower(number, day, days).items():
                level[case] *= factor
            seconds = level[:, None] * np.exp(
                rng.normal(0, ROUND_NOISE, (ROUNDS, len(CASES), 1)) + rng.normal(0, NOISE, (ROUNDS, len(CASES), samples))
            )
            _run(home, machines[number], moment, seconds.tolist())
    return time.perf_counter() - began


def _run(home: Path, where: Machine, moment: datetime, rounds: list[list[list[float]]]) -> None:
    number = int(where.host.removeprefix("node"))
    key = where.devices[0].key
    run = RunRecord(
        id=bundle.new_id(moment), began=moment.isoformat(), hotlap=hotlap.__version__, plan=PLAN, machine=where, target="cuda",
        devices=[key], labels={"cluster": "ab"[number % 2], "rack": f"r{number // 8:02}"}, seed=1,
    )
    writer = bundle.Writer.create(run, home)
    for turn, values in enumerate(rounds):
        for case, seconds in zip(IDS, values, strict=True):
            writer.append(Samples(
                case=case, device=key, round=turn, values=seconds, calls=16, method="event-batch", resolution_s=1e-9, wall_ratio=1.0,
                warmup_samples=5, began_s=1.0, ended_s=2.0, clocks_hz=[1.98e9, 1.98e9], autocorrelation=0.05, seed=3,
            ))
    times = np.arange(0.0, 10.0, 0.1).tolist()
    sensors = {"power_w": 512.5, "temperature_c": 61.0}
    writer.readings(Readings(sensor=name, device=key, times_s=times, values=[v] * 100) for name, v in sensors.items())
    writer.finish(replace(run, ended=(moment + timedelta(seconds=50)).isoformat(), stops=[Stop("rounds_max")]))


IDS = [case.id for case in CASES]


def table(path: Path, hosts: int, days: int, seed: int) -> None:
    """The same fleet as others keep it: a line per number."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["time", "host", "device", "case", "value", "unit", "cluster"])
        for day in range(days):
            for number in range(hosts):
                moment = (BEGAN + timedelta(days=day, seconds=7 * number)).isoformat()
                for case, seconds in enumerate(SECONDS):
                    for value in seconds * np.exp(rng.normal(0, NOISE, ROUNDS)):
                        lines.writerow([moment, host(number), f"GPU-{number:08x}", f"case {case}", f"{value:.9g}", "s", "ab"[number % 2]])


# ---------------------------------------------------------------- verbs


def verb(home: Path, words: Sequence[str], out: Path) -> dict[str, object]:
    """One verb in a fresh process: exit code, seconds, peak memory, what it printed."""
    began = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
        environment = os.environ | {"HOTLAP_HOME": str(home), "COLUMNS": "160"}
        os.execve(sys.executable, [sys.executable, "-m", "hotlap", *words], environment)
    _, status, used = os.wait4(pid, 0)
    took = time.perf_counter() - began
    return {
        "verb": " ".join(words), "code": os.waitstatus_to_exitcode(status), "seconds": took, "mib": used.ru_maxrss / 1024,
        "text": out.read_text(encoding="utf-8"),
    }


def changed(text: str) -> dict[str, list[str]]:
    """Series that `history` shows with a change or a trend, and its lines about them."""
    changes: dict[str, list[str]] = {}
    series = ""
    for line in text.splitlines():
        if line[:1].strip():
            series = line
        elif line.strip() and re.match(r"    \S", line):
            changes.setdefault(" ".join(series.split()), []).append(line.strip())
    return changes


def healthy(series: str) -> bool:
    return not any(host(number) in series for number in (STEP, SLOW, DRIFT))


def finds_step(text: str) -> tuple[bool, str]:
    found = changed(text)
    lines = next((said for name, said in found.items() if name.startswith("stream triad") and host(STEP) in name), [])
    wrong = sum(map(healthy, found))
    size = next((step[0] for line in lines if (step := re.search(r"step of -\S+ %", line))), "")
    return bool(size) and not wrong, f"{host(STEP)} {size or 'no step'}; {wrong} healthy series with a change or trend"


def finds_both(text: str) -> tuple[bool, str]:
    right, step = finds_step(text)
    trend = [said for name, said in changed(text).items() if name.startswith("stream copy") and host(DRIFT) in name]
    return right and bool(trend), f"{host(DRIFT)} {trend[0][0][:26] if trend else 'no trend'}; {step}"


def finds_slow(hosts: int) -> Callable[[str], tuple[bool, str]]:
    names = {f"GPU-{n:08x}-0000": n for n in range(hosts)}

    def check(text: str) -> tuple[bool, str]:
        named = {names[name] for name in re.findall(r"(?m)^  (GPU-[0-9a-f]{8}-0000)  ", text)}
        wrong = named - {STEP, SLOW, DRIFT}
        return named >= {STEP, SLOW, DRIFT} and not wrong, f"named: {', '.join(map(host, sorted(named)))}"

    return check


def counts(lines: int) -> Callable[[str], tuple[bool, str]]:
    return lambda text: (len(text.splitlines()) == lines, f"{len(text.splitlines())} lines")


def says(pattern: str) -> Callable[[str], tuple[bool, str]]:
    def check(text: str) -> tuple[bool, str]:
        found = re.search(pattern, text)
        return found is not None, found[0].strip() if found else "not what was expected"

    return check


def plan(home: Path, hosts: int, days: int) -> list[tuple[list[str], int, Callable[[str], tuple[bool, str]]]]:
    """Words, the exit code that is right, and the check of what is printed."""
    total, last = hosts * days, max(p.name for p in paths.runs(home).iterdir())
    slow = max(p.name for p in paths.runs(home).glob(f"{BEGAN + timedelta(days=days - 1, seconds=7 * SLOW):%Y%m%dT%H%M%S}-*"))
    return [
        (["list"], 0, counts(total + 1)), (["list"], 0, counts(total + 1)), (["list", "cluster=a"], 0, counts((total + 1) // 2 + 1)),
        (["list", f"host={host(STEP)}"], 0, counts(days + 1)), (["list", f"{BEGAN:%Y-%m-%d}"], 0, counts(hosts + 1)),
        (["show", "latest"], 0, says(last)),
        (["history", f"host={host(STEP)}"], 0, finds_step),
        (["history", "--metric", "bandwidth", "--where", "workload=stream"], 0, finds_step), (["history"], 0, finds_both),
        (["gate", "latest", "--against", "fleet"], 0, finds_slow(hosts)), (["gate", slow, "--against", "fleet"], 1, finds_slow(hosts)),
        (["compare", "cluster=a", "cluster=b"], 0, says(r"5 same|5 cases.*")),
        (["baseline", "save", "cluster=a", "--name", "a"], 0, says("kept in")), (["baseline", "show", "a"], 0, says(r"may gate")),
        (["gate", "latest", "--against", "baseline:a"], 0, says(r"\d+ pass")),
    ]


def verb_line(entry: dict[str, object], runs: int) -> str:
    text = str(entry["verb"])
    text = text if len(text) <= 52 else text[:51] + "…"
    seconds = float(entry["seconds"])  # type: ignore[arg-type]
    right = "right" if entry["right"] else "WRONG"
    return f"{text:<52} {seconds:7.2f} s {entry['mib']:6.0f} MiB {seconds / runs * 1e6:8.0f} µs a run  {right}: {entry['said']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, value in (("hosts", 200), ("days", 50), ("samples", 10), ("seed", 2029)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--home", default="", help="keep the runs here, and use those that are there")
    parser.add_argument("--only", default="", help="only verbs that begin so")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.hosts <= DRIFT:
        parser.error(f"more than {DRIFT} hosts are needed: one of them gets slower")
    with tempfile.TemporaryDirectory() as folder:
        soak(options, Path(folder))


def soak(options: argparse.Namespace, folder: Path) -> None:
    home = Path(options.home).absolute() if options.home else folder / "home"
    hosts, days = options.hosts, options.days
    wrote = 0.0 if paths.runs(home).is_dir() else write(home, hosts, days, options.samples, options.seed)
    rows = list[dict[str, object]]()
    if not options.json:
        kept = "kept there" if not wrote else f"written in {wrote:.0f} s"
        shape = f"{len(CASES)} cases × {ROUNDS} rounds × {options.samples} samples"
        print(f"{hosts} hosts × {days} days, {shape}, seed {options.seed}; {kept}", flush=True)
    if "import".startswith(options.only):
        table(folder / "fleet.csv", hosts, days, options.seed)
        args = ["import", str(folder / "fleet.csv"), "--label-column", "cluster"]
        rows = [_checked(verb(folder / "imported", args, folder / "out"), 0, says(rf"{hosts * days} runs added"))]
        rows[0]["verb"] = f"import of {hosts * days * len(CASES) * ROUNDS} lines"
        _show(rows[0], options)
    (home / "baselines" / "a.json").unlink(missing_ok=True)  # of an earlier time
    for words, code, check in plan(home, hosts, days):
        if " ".join(words).startswith(options.only):
            rows.append(_checked(verb(home, words, folder / "out"), code, check))
            _show(rows[-1], options)
    if options.json:
        print(json.dumps({"hosts": hosts, "days": days, "written_s": wrote, "rows": rows}, indent=1))


def _show(entry: dict[str, object], options: argparse.Namespace) -> None:
    if not options.json:
        print(verb_line(entry, options.hosts * options.days), flush=True)


def _checked(entry: dict[str, object], code: int, check: Callable[[str], tuple[bool, str]]) -> dict[str, object]:
    right, text = check(str(entry.pop("text")))
    return {
        **entry,
        "right": right and entry["code"] == code,
        "said": text if entry["code"] == code else f"exit code {entry['code']}: {text}",
    }


if __name__ == "__main__":
    main()
