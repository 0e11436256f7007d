"""Mutation testing of what makes numbers of timings: each mutant against its module's own tests.

    scripts/mutate.py [--seed N] [--most 600] [--jobs 2] [--planted] [MODULE …|cuda]

Mutants are those of Cosmic Ray; where there are more than `--most`, so many are drawn at random. Those of texts, messages, types and
docstrings are left out. A mutant is killed by a test that fails, or by tests that take ten times the CPU time, or five
times the wall time, that they take without it. Survivors are listed. Those that scripts/mutants.toml names as equivalent, and why, are
replaced by others. `cuda` means the CUDA target, on the stand-in for its driver; `--planted` adds the faults of scripts/faults.toml. Exit 1
where fewer than 90 % are killed, 95 % of `cuda`.
"""

from __future__ import annotations

import argparse
import ast
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from multiprocessing.pool import Pool
from pathlib import Path
from typing import NamedTuple

import hypothesis  # noqa: F401 - what all tests import is imported once
import msgspec  # noqa: F401
import numpy  # noqa: F401
import parso  # noqa: F401 - before cosmic_ray, which imports parts of it first
import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parent.parent
LOOP = ["tests/core/measure/test_loop.py", "tests/core/measure/test_replaced.py", "tests/core/measure/test_validity.py"]
ROUNDS = ["tests/core/measure/test_rounds.py", "tests/core/measure/test_worker.py"]
STATS = ["tests/core/stats/test_stats_stopping.py", "tests/core/stats/test_stats_summary.py"]
TESTS = {
    "core/measure/loop.py": LOOP, "core/measure/validity.py": LOOP[::-1],
    "core/measure/rounds.py": ROUNDS, "core/measure/worker.py": ROUNDS[::-1],
    "core/measure/supervisor.py": ["tests/core/measure/test_supervisor.py"], "core/store/log.py": ["tests/core/store/test_log.py"],
    "core/measure/session.py": ["tests/core/measure/test_session_devices.py", *ROUNDS[::-1]],
    "core/measure/foreign.py": ["tests/core/measure/test_foreign.py"], "core/store/fold.py": ["tests/core/store/test_store_fold.py"],
    "core/analysis/state.py": ["tests/core/analysis/test_state.py"],
    "core/stats/stopping.py": STATS, "core/stats/order.py": STATS[::-1], "core/stats/summary.py": STATS[::-1],
}
CUDA = ["tests/core/targets", "tests/cuda_stand_in", "-k", "cuda and not torch and not prelude_has and not becomes_machine_code"]
CUDA_TESTS = {f"core/measure/targets/cuda{part}.py": CUDA for part in ("", "_compile", "_driver", "_kernel", "_memory")}
OPTIONS = ["-x", "-q", "--tb=no", "-m", "not slow and not thorough and not nightly", "-k", "not real_cpu", "-p", "no:cacheprovider"]
GOAL, CUDA_GOAL = 0.90, 0.95
ALIKE = ("Eq_Is", "NotEq_IsNot", "Is_Eq", "IsNot_NotEq")  # of names and None they say the same


class Place(NamedTuple):
    """Where a module can be changed, and how."""

    module: str
    operator: str
    occurrence: int


class Mutant(NamedTuple):
    """One change of one line."""

    module: str
    line: int
    before: str
    after: str
    source: str  # of the whole module


def places(module: str) -> list[Place]:
    """All that change behaviour as far as one can tell from where they stand."""
    source = (ROOT / "src/hotlap" / module).read_text()
    texts, tree, mutants = _texts(ast.parse(source)), get_ast(source), []
    nodes = list(ast_nodes(tree))
    for name in operator_names():
        if get_operator(name).arguments() or name.endswith(ALIKE):
            continue
        operator = get_operator(name)()
        starts = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        mutants += [Place(module, name, n) for n, start in enumerate(starts) if not any(begin <= start < end for begin, end in texts)]
    return mutants


def mutant(place: Place) -> Mutant | None:
    """The module changed there; None where the change is none."""
    source = (ROOT / "src/hotlap" / place.module).read_text()
    changed = mutate_code(source, get_operator(place.operator)(), place.occurrence)
    if changed is None or changed == source:
        return None
    old, new = source.splitlines(), changed.splitlines()
    at = next((n for n, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), 0)
    return Mutant(place.module, at + 1, old[at].strip(), new[at].strip(), changed)


def _texts(tree: ast.Module) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where texts, messages and types stand."""

    def nodes() -> Iterator[ast.AST]:
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr | ast.Raise | ast.ImportFrom):
                yield node
            elif isinstance(node, ast.FunctionDef):
                yield from filter(None, [node.returns, *(one.annotation for one in ast.walk(node.args) if isinstance(one, ast.arg))])
            elif isinstance(node, ast.AnnAssign):
                yield node.annotation
            elif isinstance(node, ast.Assign) and node in tree.body and _names_a_type(node):
                yield node

    return [((n.lineno, n.col_offset), (n.end_lineno or 0, n.end_col_offset or 0)) for n in nodes()]  # type: ignore[attr-defined]


def _names_a_type(node: ast.Assign) -> bool:
    return isinstance(node.value, ast.Subscript | ast.BinOp) and isinstance(node.targets[0], ast.Name) and not node.targets[0].id.isupper()


# ---------------------------------------------------------------- running them


def _copy() -> Path:
    """A copy of the tree for this process."""
    folder = Path(tempfile.mkdtemp(dir=os.environ["TMPDIR"]))
    for name in ("src", "tests", "scripts"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.egg-info"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def tested(folder: Path, tests: list[str], cpu_s: float, wall_s: float, compiled: bool) -> tuple[int, float]:
    """Exit code of the tests in a fork, and the CPU time it took; −1 where it took more than was given."""
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s) + 1, int(cpu_s) + 2))
        os.chdir(folder)
        sys.path.insert(0, str(folder / "src"))
        sys.dont_write_bytecode = not compiled
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os._exit(int(pytest.main([*OPTIONS, *tests])))
    until = time.monotonic() + wall_s
    while time.monotonic() < until:
        done, status, used = os.wait4(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        time.sleep(0.02)
    os.kill(child, 9)
    os.wait4(child, 0)
    return -1, cpu_s


def _tests(module: str) -> list[str]:
    return TESTS.get(module) or CUDA_TESTS.get(module, CUDA)


_here: dict[str, tuple[Path, float, float]] = {}  # of this process: module → its copy, CPU and wall time of its tests


def kills(mutant: Mutant) -> bool:
    """Whether the module's tests notice. Raises RuntimeError where they fail on the module as it is."""
    if not _here:
        _here[""] = (_copy(), 0.0, 0.0)
    folder = _here[""][0]
    file = folder / "src/hotlap" / mutant.module
    if mutant.module not in _here:
        began = time.monotonic()
        code, used_s = tested(folder, _tests(mutant.module), 600, 600, compiled=True)
        if code:
            raise RuntimeError(f"the tests of {mutant.module} fail without a mutant, or do not run: {' '.join(_tests(mutant.module))}")
        _here[mutant.module] = (folder, used_s, time.monotonic() - began)
        for stale in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            stale.unlink()
    original = file.read_text()
    file.write_text(mutant.source)
    try:
        _, cpu_s, wall_s = _here[mutant.module]
        return bool(tested(folder, _tests(mutant.module), 10 * cpu_s + 10, 5 * wall_s + 20, compiled=False)[0])
    finally:
        file.write_text(original)


def _pool(jobs: int, folder: str) -> Pool:
    """Processes that keep all they write, their tests' too, in the folder."""
    return multiprocessing.get_context("fork").Pool(jobs, initializer=os.environ.__setitem__, initargs=("TMPDIR", folder))


def _judged(change: Mutant) -> tuple[Mutant, bool]:
    return change, kills(change)


def planted() -> list[Mutant]:
    """The faults planted by hand. Raises ValueError for one whose place is not there, or there twice."""
    faults = []
    for fault in tomllib.loads((ROOT / "scripts/faults.toml").read_text())["fault"]:
        before, _, after = (source := (ROOT / "src/hotlap" / fault["module"]).read_text()).partition(fault["before"])
        if source.count(fault["before"]) != 1:
            raise ValueError(f"scripts/faults.toml: {fault['module']} holds {source.count(fault['before'])} times: {fault['before']}")
        changed = before + fault["after"] + after
        faults.append(Mutant(fault["module"], before.count("\n") + 1, fault["before"], f"{fault['after']}  ({fault['what']})", changed))
    return faults


def drawn(modules: list[str], most: int, seed: int) -> list[Mutant]:
    """At most so many mutants of these modules, in random order of drawing; known equivalent ones are replaced by others."""
    every = [place for module in modules for place in places(module)]
    print(f"{len(every)} mutants, of which at most {most} are tested, drawn with --seed {seed}", flush=True)
    random.Random(seed).shuffle(every)
    same, mutants = equivalents(), list[Mutant]()
    for change in filter(None, map(mutant, every)):
        if len(mutants) == most:
            break
        if why := same.get((change.module, change.before, change.after)):
            print(f"replaced: {change.module}:{change.line} {change.before} → {change.after}: {why}")
            continue
        mutants.append(change)
    return sorted(mutants, key=lambda change: change.module)


def equivalents() -> dict[tuple[str, str, str], str]:
    """Mutants that change nothing, and why."""
    table = tomllib.loads((ROOT / "scripts/mutants.toml").read_text())
    return {(one["module"], one["before"], one["after"]): one["why"] for one in table.get("equivalent", [])}


def main() -> int:
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("modules", nargs="*", metavar="MODULE", help=f"of {', '.join(TESTS)}; cuda: {', '.join(CUDA_TESTS)}")
    asked.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    asked.add_argument("--most", type=int, default=600)
    asked.add_argument("--jobs", type=int, default=2)
    asked.add_argument("--planted", action="store_true", help="the faults of scripts/faults.toml, too")
    given = asked.parse_args()
    names = [name for part in given.modules or TESTS for name in (CUDA_TESTS if part == "cuda" else [part])]
    if unknown := set(names) - set(TESTS) - set(CUDA_TESTS):
        asked.error(f"there is no module {', '.join(unknown)}; valid: cuda, {', '.join([*TESTS, *CUDA_TESTS])}")
    mutants = [*(planted() if given.planted else []), *drawn(names, given.most, given.seed)]
    goal = CUDA_GOAL if set(names) <= set(CUDA_TESTS) else GOAL
    killed, total = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="hotlap-mutants-") as folder, _pool(given.jobs, folder) as pool:
        for number, (change, dead) in enumerate(pool.imap(_judged, mutants, chunksize=8), 1):
            total[change.module] += 1
            killed[change.module] += dead
            if not dead:
                print(f"{number}/{len(mutants)} survived: {change.module}:{change.line}", flush=True)
                print(f"    - {change.before}\n    + {change.after}", flush=True)
    for module in total:
        print(f"{module:<36} {killed[module]:>4} of {total[module]:>4} killed")
    count = total.total()
    share = killed.total() / max(count, 1)
    print(f"{'all':<36} {killed.total():>4} of {count:>4} killed: {share:.1%}; {goal:.0%} are asked")
    return int(share < goal)


if __name__ == "__main__":
    sys.exit(main())
