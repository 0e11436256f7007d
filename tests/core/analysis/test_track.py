"""The life of kernels: changes with what brought them and what they cost, correctness, and steps between revisions of short series."""

from __future__ import annotations

import numpy as np
import pytest
from judging import COPY, GEMM, make
from msgspec.structs import replace

from hotlap.core.analysis import revisions
from hotlap.core.analysis.history import history
from hotlap.core.record import Check, Use
from hotlap.core.store.bundle import Bundle
from hotlap.kernels.coverage.usage import Needed
from hotlap.kernels.show import track as shown
from hotlap.kernels.show import track_page
from hotlap.kernels.track import track

STEP = "llama-3-8b decode batch=8"


def runs(levels: list[float], per: int = 2, noise: float = 0.004, seed: int = 3, **machine: object) -> list[Bundle]:
    """A run a day, `per` of them of each revision; seconds of the case copy are 1 ms times the level."""
    rng = np.random.default_rng(seed)
    found = []
    for n, level in enumerate(levels):
        own = level * float(np.exp(rng.normal(0, noise)))
        rounds = [1e-3 * own * float(np.exp(rng.normal(0, 0.001))) for _ in range(6)]
        given = {name: value(n) if callable(value) else value for name, value in machine.items()}
        found.append(make({"copy": rounds}, day=n, labels={"revision": f"r{n // per}"}, **given))
    return found


def with_uses(bundles: list[Bundle]) -> list[Bundle]:
    uses = [Use(case=COPY.id, step=STEP, kernel="copy of keys", calls=32)]
    return [Bundle(replace(b.run, plan=replace(b.run.plan, uses=uses)), b.path, b.samples) for b in bundles]


def test_a_step_between_revisions_is_found_in_a_short_series_with_its_cost() -> None:
    answer = track(with_uses(runs([1.0] * 6 + [1.3] * 6)))
    (life,) = answer.lives
    (turn,) = life.turns
    assert (turn.before, turn.after, turn.change.index) == ("r2", "r3", 6)
    assert turn.time_ratio == pytest.approx(1.3, rel=0.01)
    assert turn.change.low < 1 / 1.3 < turn.change.high
    assert [one.name for one in turn.suspects] == ["label revision"]
    (cost,) = turn.costs
    assert cost.seconds == pytest.approx(32 * 0.3e-3, rel=0.02)
    assert life.since_first == pytest.approx(1.3, rel=0.01)
    assert life.since_best == pytest.approx(1.3, rel=0.01)
    (total,) = answer.totals
    assert total.now_s - total.best_s == pytest.approx(32 * 0.3e-3, rel=0.02)
    text = shown.track(answer, 200)
    assert "brought by revision r2 → r3" in text
    assert "costs 9.6" in text
    assert "hotlap kernel track report --from r2 --to r3" in text
    assert "brought by revision r2" in track_page.page(answer)
    assert history(runs([1.0] * 6 + [1.3] * 6))[0].changes == []  # 'history' itself is as it was


def test_a_long_series_is_tested_point_by_point_and_a_library_is_suspected() -> None:
    bundles = runs([1.0] * 40 + [1.1] * 40, per=1000, software=lambda n: {"torch": "2.8" if n < 40 else "2.9"})
    (life,) = track(bundles).lives
    (turn,) = life.turns
    assert abs(turn.change.index - 40) <= 2
    assert "software.torch 2.8 → 2.9" in shown.change_text(life, turn)


def test_a_kernel_that_got_better_and_then_worse_knows_its_best() -> None:
    (life,) = track(runs([1.0] * 6 + [0.5] * 6 + [0.8] * 6, per=3)).lives
    assert life.best.revision == "r2"
    assert life.since_first == pytest.approx(0.8, rel=0.02)
    assert life.since_best == pytest.approx(1.6, rel=0.02)


@pytest.mark.slow("hundreds of comparisons")
def test_runs_that_scatter_are_no_steps_and_one_outlier_is_none_either() -> None:
    false = sum(bool(track(runs([1.0] * 12, per=2, noise=0.05, seed=seed)).lives[0].turns) for seed in range(40))
    assert false <= 3
    (life,) = track(runs([1.0] * 6 + [1.5] + [1.0] * 6, per=1)).lives
    assert life.turns == []


def test_a_step_in_the_very_last_run_is_provisional() -> None:
    (life,) = track(runs([1.0] * 9 + [2.0], per=1)).lives
    (turn,) = life.turns
    assert turn.change.provisional
    assert "measure again" in shown.change_text(life, turn)


@pytest.mark.slow("hundreds of comparisons")
def test_two_revisions_of_one_run_each_are_told_by_their_rounds() -> None:
    (life,) = track(runs([1.0, 1.5], per=1)).lives
    (turn,) = life.turns
    assert turn.time_ratio == pytest.approx(1.5, rel=0.02)
    assert turn.change.provisional  # what differs from run to run is not known
    few = [Bundle(b.run, b.path, [replace(s, values=s.values[:4]) for s in b.samples]) for b in runs([1.0, 2.0, 2.0], per=1)]
    (life,) = track(few).lives
    assert [turn.time_ratio for turn in life.turns] == [pytest.approx(2.0, rel=0.02)]  # too few for ranks: normal noise is assumed


@pytest.mark.parametrize("since", range(1, 13))
def test_a_step_that_was_seen_stays_seen_when_more_runs_come(since: int) -> None:
    (life,) = track(runs([1.0] * 18 + [1.04] * since, per=1)).lives
    (turn,) = life.turns
    assert turn.change.index == 18
    assert turn.change.provisional == (since == 1)


@pytest.mark.slow("hundreds of comparisons")
def test_a_long_series_that_scatters_has_no_steps_at_its_end() -> None:
    false = sum(bool(track(runs([1.0] * 45, per=1, noise=0.02, seed=seed)).lives[0].turns) for seed in range(40))
    assert false <= 3


def test_a_large_difference_without_a_change_is_not_called_the_same() -> None:
    (life,) = track(runs([1.0, 1.3, 1.0, 1.3, 1.4], per=1000)).lives
    assert life.turns == []
    assert "?" in shown.track(track(runs([1.0, 1.3, 1.0, 1.3, 1.4], per=1000)), 120).splitlines()[3]


def test_wrong_results_and_growing_errors_stand_beside_the_speed() -> None:
    bundles = runs([1.0] * 8)
    share = [0.01, 0.011, 0.012, 0.01, 0.2, 0.21, 0.2, 0.2]
    checked = [
        Bundle(b.run, b.path, [replace(s, check=Check(passed=True, what="x", error=e, tolerance=1.0)) for s in b.samples])
        for b, e in zip(bundles, share, strict=True)
    ]
    last = checked[-1]
    checked[-1] = Bundle(last.run, last.path, [replace(s, status="invalid", reason="wrong result") for s in last.samples])
    (life,) = track(checked).lives
    assert life.checks.last_wrong
    assert life.checks.wrong == [last.run.id]
    assert life.checks.grown
    assert shown.right(life.checks) == "WRONG now"
    assert "wrong result" in shown.wrong(life.checks)
    answer = track(with_uses(checked))
    assert answer.totals == []  # the time of what is wrong is none
    assert "1 wrong now" in shown.track(answer, 120)
    assert "from 1.1 % to 20 % of its tolerance" in shown.wrong(life.checks)


def test_a_kernel_that_is_not_measured_any_more_is_said_to_be_gone() -> None:
    nights = [make({"copy": [1e-3] * 6, "gemm": [2e-3] * 6} if n < 4 else {"copy": [1e-3] * 6}, day=n) for n in range(7)]
    answer = track(nights)
    lives = {one.series.case.id: one for one in answer.lives}
    assert (lives[COPY.id].absent, lives[GEMM.id].absent) == (0, 3)
    assert shown.track(answer, 120).count("gone     the last 3 runs of its plan did not measure it") == 1


def test_what_was_never_measured_is_said() -> None:
    bundle = make({"copy": [1e-3] * 6, "gemm": [1e-3] * 6})
    samples = [replace(s, status="not_run", reason="no fp8 here", values=[]) if s.case == GEMM.id else s for s in bundle.samples]
    answer = track([Bundle(bundle.run, bundle.path, samples)])
    (never,) = answer.never
    assert never.reason == "not run: no fp8 here"
    assert "no fp8 here" in shown.track(answer, 120)


@pytest.mark.slow("hundreds of comparisons")
def test_a_network_of_the_table_or_of_the_plans_selects_kernels() -> None:
    bundles = with_uses(runs([1.0] * 4))
    table = [Needed("other decode", "gemm", 1, GEMM)]
    assert len(track(bundles, network="llama-3-8b").lives) == 1
    assert track(bundles, network="other", table=table).lives == []
    assert track(bundles, network="nothing").lives == []


def test_revisions_come_from_labels_else_from_libraries() -> None:
    run = make({"copy": [1e-3]}, labels={"commit": "abc"}).run
    assert revisions.revision(run) == "abc"
    bare = make({"copy": [1e-3]}, software={"torch": "2.9", "python": "3.11", "kernel mine": "f00d", "kernel other": "beef"}).run
    mine = replace(COPY, implementation="mine")
    assert revisions.revision(bare) == ""
    assert revisions.revision(bare, mine) == "f00d"
    assert "torch=2.9" in revisions.mark(bare, mine)
    assert not {"python", "beef"} & set(revisions.mark(bare, mine).replace("=", " ").split())


def test_a_new_revision_of_ones_own_kernel_brings_a_change_and_that_of_another_does_not() -> None:
    mine = replace(COPY, implementation="mine")
    bundles = []

    def software(n: int) -> dict[str, str]:
        return {"kernel mine": f"v{n // 4}", "kernel other": f"w{n // 2}"}

    for b in with_uses(runs([1.0] * 4 + [1.4] * 4, per=100, software=software)):
        plan = replace(b.run.plan, cases=[mine])
        bundles.append(Bundle(replace(b.run, labels={}, plan=plan), b.path, [replace(s, case=mine.id) for s in b.samples]))
    newest = bundles[-1]
    bundles[-1] = Bundle(replace(newest.run, plan=replace(newest.run.plan, cases=[mine, COPY])), newest.path, newest.samples)
    life = next(one for one in track(bundles).lives if one.series.case.id == mine.id)
    (turn,) = life.turns
    assert [one.name for one in turn.suspects] == ["software.kernel mine"]
    assert (turn.before, turn.after) == ("v0", "v1")
    assert turn.costs[0].seconds == pytest.approx(32 * 0.4e-3, rel=0.02)  # the network's call is of this work, whoever does it


def test_the_text_fits_a_narrow_terminal() -> None:
    text = shown.track(track(with_uses(runs([1.0] * 6 + [1.3] * 6))), 80)
    assert max(map(len, text.splitlines())) <= 80
