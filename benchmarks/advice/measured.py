"""The real programs of programs.py: their true first findings, their traces, and what mending measures."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.advice.case import NOTHING
from benchmarks.advice.programs import PLANS, Plan

HERE = Path(__file__).resolve().parent


class NotRun(Exception):
    """What this machine lacks for a case."""


@dataclass(frozen=True)
class Measured:
    """A program that runs here. `truth` as of a made case."""

    name: str
    truth: str
    about: str
    no_gain: bool = False

    @property
    def plan(self) -> Plan:
        return PLANS[self.name]

    def run(self, python: str, mended: bool = False, trace: Path | None = None) -> float:
        """Seconds of its steps, in a process of its own. Raises NotRun."""
        words = [
            python,
            str(HERE / "programs.py"),
            self.name,
            *(["--mended"] if mended else []),
            *(["--trace", str(trace)] if trace else []),
        ]
        environment = dict(os.environ, OMP_NUM_THREADS="1", JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="3")
        done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=300, check=False)
        if done.returncode:
            raise NotRun(f"{self.name}: {(done.stderr.strip().splitlines() or ['no output'])[-1][:120]}")
        return float(done.stdout.split()[-1])

    def write(self, folder: Path, python: str) -> list[Path]:
        """The trace of each rank."""
        out = folder if self.plan.jax or self.plan.ranks > 1 else folder / f"{self.name}.json"
        self.run(python, trace=out)
        paths = sorted(folder.rglob("*.xplane.pb")) if self.plan.jax else sorted(folder.glob("*.json"))
        if not paths:
            raise NotRun(f"{self.name}: the profiler wrote no trace")
        return paths

    def gain(self, python: str, turns: int) -> tuple[float, float, float]:
        """Median share saved by mending, and its lowest and highest of pairs in turns."""
        if self.no_gain or not self.truth:
            return 0.0, 0.0, 0.0
        shares = []
        for turn in range(turns):
            order = (False, True) if turn % 2 else (True, False)
            seconds = {mended: self.run(python, mended) for mended in order}
            shares.append(1.0 - seconds[True] / seconds[False])
        return statistics.median(shares), min(shares), max(shares)


def interpreter(plan: Plan, jax: str) -> str:
    """The Python for a program. Raises NotRun where it is not given."""
    if plan.jax and not jax:
        raise NotRun("no JAX; name a Python that has it with --jax")
    return jax if plan.jax else sys.executable


CASES = (
    Measured("stored-samples", "data-loader", "samples from a slow storage, without workers"),
    Measured("summed-rows", "tiny-operators", "a loop over rows"),
    Measured("parsed-again", "host-code", "a configuration parsed in every step"),
    Measured("frequent-checkpoints", "slow-steps", "a checkpoint in every eighth step"),
    Measured("changing-lengths", "compile", "a compiled function with a new length in every other step"),
    Measured("plain-products", NOTHING, "large products"),
    Measured("kept-losses", "memory-growth", "the graph of every step is kept", no_gain=True),
    Measured("uneven-ranks", "waiting-for-ranks", "rank 1 of 2 reads for 40 ms longer"),
    Measured("jax-lengths", "compile", "JAX; a jitted function with a new length in every step"),
    Measured("jax-parsed-again", "host-code", "JAX; a configuration parsed in every step"),
    Measured("jax-products", NOTHING, "JAX; large products"),
)
