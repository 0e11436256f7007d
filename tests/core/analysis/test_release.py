"""Two releases compared with each other: kinds, sums, suspects, what to run next, exit codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from judging import CHASE, COPY, GEMM, NAMED, make
from msgspec.structs import replace

from hotlap.core.record import Case, Check, Use
from hotlap.core.stats import pooled_t
from hotlap.core.store.bundle import Bundle
from hotlap.core.work import find
from hotlap.kernels.release import Release, release
from hotlap.kernels.show import release as shown
from hotlap.kernels.show import release_page

STEP = "llama-3-8b decode batch=8"
STILL = [1e-3, 1.001e-3, 0.999e-3, 1.0005e-3, 0.9995e-3, 1e-3]


def side(revision: str, day: int, runs: int = 4, **factors: float) -> list[Bundle]:
    """Runs of one revision; the seconds of each case named are STILL times its factor."""
    found = []
    for n in range(runs):
        cases = {name: [s * factor * (1 + 0.001 * n) for s in STILL] for name, factor in factors.items()}
        one = make(cases, day=day + n, labels={"revision": revision})
        uses = [Use(case=COPY.id, step=STEP, kernel="copy", calls=32), Use(case=GEMM.id, step=STEP, kernel="up", calls=2)]
        found.append(Bundle(replace(one.run, plan=replace(one.run.plan, uses=uses)), one.path, one.samples))
    return found


def spoilt(bundles: list[Bundle], case: Case, **fields: Any) -> list[Bundle]:
    return [Bundle(b.run, b.path, [replace(s, **fields) if s.case == case.id else s for s in b.samples]) for b in bundles]


def kinds(found: Release) -> dict[str, str]:
    names = {case.id: name for name, case in NAMED.items()}
    return {names[one.comparison.case.id]: one.kind for one in found.kernels}


def held(a: list[Bundle], b: list[Bundle], **options: Any) -> Release:
    return release(("A", a), ("B", b), **options)


def test_few_values_by_students_t() -> None:
    found = pooled_t.pooled_t_ratio([1.0, 1.0, 1.02], [1.5, 1.52, 1.49])
    assert found is not None
    assert found.ratio == pytest.approx(1.4933, rel=1e-3)
    assert found.low is not None
    assert found.high is not None
    # t(0.975, 4) = 2.776; pooled variance of the logarithms, unbiased
    logs = [np.log([1.0, 1.0, 1.02]), np.log([1.5, 1.52, 1.49])]
    error = np.sqrt((logs[0].var(ddof=1) + logs[1].var(ddof=1)) / 2 * (2 / 3))
    assert np.log(found.high / found.low) / 2 == pytest.approx(2.776 * error, rel=1e-3)
    assert pooled_t.pooled_t_ratio([1.0], [1.0, 1.1]) is None
    assert pooled_t.pooled_t_ratio([1.0, 0.0], [1.0, 1.1]) is None


@pytest.mark.slow("hundreds of comparisons")
def test_slower_faster_and_the_same_with_the_sum_of_a_step() -> None:
    found = held(side("a", 0, copy=1, gemm=1, chase=1), side("b", 10, copy=1.3, gemm=0.8, chase=1))
    assert kinds(found) == {"copy": "slower", "gemm": "faster", "chase": "same"}
    assert found.code == 1
    slower = found.kernels[0]
    assert slower.time_ratio == pytest.approx(1.3, rel=0.01)
    assert slower.low is not None
    assert slower.high is not None
    assert slower.low < 1.3 < slower.high
    assert slower.costs[0].seconds == pytest.approx(32 * 0.3e-3, rel=0.02)
    (step,) = found.steps
    assert (step.kernels, step.of) == (2, 2)
    assert step.b_s - step.a_s == pytest.approx(32 * 0.3e-3 - 2 * 0.2e-3, rel=0.03)
    assert step.low_s is not None
    assert step.high_s is not None
    assert 0 < step.low_s < step.b_s - step.a_s < step.high_s
    assert found.suspects[0].name == "label revision"
    assert "Regression: 1 slower, 1 faster, 1 same" in shown.release(found, 100)


@pytest.mark.slow("hundreds of comparisons")
@pytest.mark.parametrize("runs", [2, 4])
def test_one_slow_case_in_many_is_told_by_few_runs_with_an_assumption_that_is_said(runs: int) -> None:
    found = held(side("a", 0, runs, copy=1, gemm=1, chase=1), side("b", 10, runs, copy=1.3, gemm=1, chase=1))
    assert kinds(found) == {"copy": "slower", "gemm": "same", "chase": "same"}
    assert runs == 2 or "normal noise assumed" in found.kernels[0].reason
    quiet = held(side("a", 0, runs, copy=1, gemm=1), side("b", 10, runs, copy=1, gemm=1))
    assert set(kinds(quiet).values()) == {"same"}


@pytest.mark.slow("hundreds of comparisons")
def test_broken_fixed_missing_new_and_not_run() -> None:
    good = side("a", 0, copy=1, gemm=1)
    bad = spoilt(side("b", 10, copy=1, gemm=1), COPY, status="invalid", reason="wrong result")
    found = held(good, bad)
    assert kinds(found) == {"copy": "broken", "gemm": "same"}
    assert found.code == 1
    assert "wrong result" in shown.release(found, 100)
    assert kinds(held(bad, good)) == {"copy": "fixed", "gemm": "same"}
    assert held(bad, good).code == 0
    lost = held(good, side("b", 10, gemm=1))
    assert kinds(lost) == {"copy": "missing", "gemm": "same"}
    assert lost.code == 3
    assert kinds(held(side("a", 0, gemm=1), good)) == {"copy": "new", "gemm": "same"}
    neither = held(spoilt(good, COPY, status="not_run", reason="no", values=[]), spoilt(good, COPY, status="not_run", reason="no", values=[]))
    assert kinds(neither)["copy"] == "not run"


def test_what_cannot_be_told_is_no_pass() -> None:
    noisy = [1e-3, 3e-3, 0.5e-3, 2e-3, 0.7e-3, 1.5e-3]
    a, b = (make({"copy": noisy if n else noisy[::-1]}, day=n) for n in (0, 1))
    found = held([a], [b])
    assert kinds(found) == {"copy": "inconclusive"}
    assert found.code == 3
    assert shown.verdict(found) == "Inconclusive: 1 inconclusive"


def test_a_program_of_two_revisions_is_handed_to_bisect() -> None:
    program = Case(workload="command", params=find("command").parse({"argv": ["./bench"]}))
    sides = []
    for revision, factor in (("a1b2", 1.0), ("c3d4", 2.0)):
        runs = side(revision, len(sides) * 10, copy=factor)
        plan = replace(runs[0].run.plan, cases=[program], uses=[], source="bench.toml")
        sides.append([Bundle(replace(b.run, plan=plan), b.path, [replace(s, case=program.id) for s in b.samples]) for b in runs])
    found = held(*sides)
    assert found.kernels[0].next == f"hotlap history bisect --good a1b2 --bad c3d4 --plan bench.toml --case {program.id}"
    assert found.kernels[0].next in shown.markdown(found)


def test_errors_that_grew_stand_beside_the_speed() -> None:
    a, b = (
        spoilt(side(name, day, copy=1), COPY, check=Check(passed=True, what="x", error=error, tolerance=1.0))
        for name, day, error in (("a", 0, 0.01), ("b", 10, 0.5))
    )
    assert "error grew from 1.0 % to 50 %" in shown.notes(held(a, b).kernels[0])[-1]


def test_only_what_a_network_calls() -> None:
    found = held(side("a", 0, copy=1, chase=1), side("b", 10, copy=1, chase=1), network="llama-3-8b")
    assert kinds(found) == {"copy": "same"}
    assert CHASE.id not in {one.comparison.case.id for one in found.kernels}


def test_markdown_and_page_say_what_the_text_says_and_escape() -> None:
    found = held(side("a|b", 0, copy=1, gemm=1), side("<c>", 10, copy=1.3, gemm=1))
    text, table, page = shown.release(found, 80), shown.markdown(found), release_page.page(found)
    assert max(map(len, text.splitlines())) <= 80
    assert "a\\|b" in table
    assert "&lt;c>" in table
    assert "<c>" not in page.partition('<script type="application/json"')[0]
    for said in (table, page):
        assert "30 % slower" in said
