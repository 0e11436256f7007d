"""What every test process has in common: its own home and locks, how many draws a simulation takes, what each test costs."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

import draws
import forks
import left_behind
from hotlap.core import extend
from hotlap.core.errors import Unavailable
from hotlap.core.measure import targets
from hotlap.core.measure.supervisor import SPEED_ENVIRONMENT
from hotlap.features import TABLE

# As in the processes of rounds: threads that spin for long after a parallel region look like a kernel that goes on computing.
os.environ.setdefault("GOMP_SPINCOUNT", SPEED_ENVIRONMENT["GOMP_SPINCOUNT"])

COST = os.environ.get("HOTLAP_TEST_COST")  # a file: one line of JSON per test; read by benchmarks/suite.py
# No deadline: how long an example takes depends on who else uses the machine.
hypothesis.settings.register_profile("hotlap", deadline=None, max_examples=draws.examples(100), derandomize=not draws.FULL)
hypothesis.settings.load_profile("hotlap")
DEAR_S = 0.3  # what takes longer and has passed is not run again
PASSED = os.environ.get("HOTLAP_TEST_PASSED")  # a file: the tests that have passed, one a line; .ci/run reads it
_own = left_behind.folder()  # of this process; also where test_docs runs the documents


def pytest_configure(config: pytest.Config) -> None:
    """Tests beside each other (pytest-xdist: a process each) share no runs and wait for no one's devices, and none has a terminal."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as for a job in the background: what the tests start would never hear Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["COLUMNS"] = "100"  # where there is no terminal; pytest-xdist says 80 to its processes
    os.environ["HOTLAP_HOME"] = str(_own / "home")
    os.environ["HOTLAP_LOCKS"] = str(_own / "locks")
    os.environ["HOTLAP_TEST_FOLDER"] = str(_own)
    os.environ["HOTLAP_NVML"] = "stand-in"  # no test sets a real GPU's clocks or caps
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False  # pytest-xdist would put files with one test last, however long it takes
    extend.use(TABLE)  # as `hotlap` and `import hotlap` do; tests of core take it away


def pytest_collection() -> None:
    gc.disable()  # thousands of tests are made here and none goes away


def pytest_collection_finish() -> None:
    gc.freeze()  # nor are they looked through again and again while tests run
    gc.enable()


def pytest_unconfigure() -> None:
    shutil.rmtree(_own, ignore_errors=True)


@pytest.fixture(autouse=True, scope="session")
def _forks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        forks.install(patch)
        yield


@pytest.fixture(autouse=True)
def _own_draws(request: pytest.FixtureRequest) -> None:
    """A module's RNG begins anew with each test, by the test's name: what a test draws does not depend on which others run."""
    source = getattr(request.module, "RNG", None)
    if isinstance(source, np.random.Generator):
        source.bit_generator.state = np.random.default_rng(zlib.crc32(request.node.name.encode())).bit_generator.state


def spent_s() -> float:
    """CPU seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before, began = spent_s(), time.perf_counter()
    try:
        return (yield)
    finally:
        if COST:
            took = {"cpu_s": round(spent_s() - before, 3), "wall_s": round(time.perf_counter() - began, 3)}
            with open(COST, "a", encoding="utf-8") as out:
                out.write(json.dumps({"test": item.nodeid, **took}) + "\n")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if PASSED and report.when == "call" and report.passed and "PYTEST_XDIST_WORKER" not in os.environ:
        for file in [PASSED, f"{PASSED}.dear"] if report.duration >= DEAR_S else [PASSED]:
            with open(file, "a", encoding="utf-8") as out:
                out.write(report.nodeid.encode("unicode_escape").decode() + "\n")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks say why. What is slow or took long, and has passed, is left out; the others are cheap, and run again with what was installed since."""
    for one in items:
        for mark in one.iter_markers():
            if mark.name in ("slow", "thorough", "nightly") and not mark.args:
                raise pytest.UsageError(f"{one.nodeid}: say why: @pytest.mark.{mark.name}('…')")
    if PASSED and os.path.exists(PASSED):
        done, dear = (set(file.read_text(encoding="utf-8").splitlines()) if file.exists() else set() for file in map(Path, (PASSED, f"{PASSED}.dear")))
        again: dict[bool, list[pytest.Item]] = {True: [], False: []}
        for one in items:
            name = one.nodeid.encode("unicode_escape").decode()
            again[name not in (done if one.get_closest_marker("slow") else dear)].append(one)
        config.hook.pytest_deselected(items=again[False])
        items[:] = again[True]
    if "PYTEST_XDIST_WORKER" in os.environ:
        _longest_first(items)


def _longest_first(items: list[pytest.Item]) -> None:
    """Files by what they may take, as far as marks say it: a long one at the end would run while the other processes have nothing to do."""
    weight: Counter[Path] = Counter()
    for one in items:
        weight[one.path] += 300 if one.get_closest_marker("thorough") or one.get_closest_marker("nightly") else 30 if one.get_closest_marker("slow") else 1
    items.sort(key=lambda one: (-weight[one.path], str(one.path)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests that share a costly fixture stay in one process: those of a file, in test_docs.py those of a document."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file, _, test = nodeid.partition("::")
            return f"{file} {test.partition(':')[0]}" if file.endswith("test_docs.py") else file

    return ByFile(config, log)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with the file of this name in the folder `golden` beside the test; HOTLAP_GOLDEN=write accepts the text."""

    def check(name: str, text: str) -> None:
        path = request.path.parent / "golden" / name
        if os.environ.get("HOTLAP_GOLDEN") == "write":
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"there is no {path.name}; HOTLAP_GOLDEN=write makes it"
        assert text == path.read_text(encoding="utf-8"), f"{path.name} differs; HOTLAP_GOLDEN=write accepts what is printed now"

    return check


@pytest.fixture(scope="module")
def webgpu_target() -> Any:
    """The first adapter of wgpu; skips with the reason where there is none."""
    spec = targets.TargetSpec("webgpu")
    try:
        return targets.open_device(spec, targets.find(spec)[0])
    except Unavailable as reason:
        pytest.skip(str(reason))
