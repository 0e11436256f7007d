"""A simulated GPU that draws: what is injected is named by the notice, the cause and the share of the limit, and one wrong tile is invalid."""

from __future__ import annotations

from typing import Any

import pytest

from hotlap.core import plan
from hotlap.core.errors import InputError, NotSupported
from hotlap.core.measure import pictures, targets
from hotlap.core.measure.loop import CaseBudget, measure
from hotlap.core.measure.targets.faults import Faults
from hotlap.core.model import gap, machines
from hotlap.core.model.limits import limit
from hotlap.core.record import Case, Gap, Result, Samples
from hotlap.core.show import words
from hotlap.core.stats.summary import summarize
from hotlap.core.store.fold import fold, stuttered
from hotlap.core.work import case_of

FILL = "fillrate blend=add side=2048"


def result(text: str, options: str = "noise=0.002&seed=5", rounds: int = 6) -> Result:
    case, spec = case_of(text), targets.parse(f"simulated:rtx-4090?{options}")
    samples = []
    for number in range(rounds):
        target = targets.open_device(spec, targets.find(spec)[0])
        target.clock.sleep(100.0 * number)
        samples.append(measure(target, case, CaseBudget(seconds=4.0, round=number)))
    return fold(case, samples, "simulated")


def explained(found: Result) -> Gap:
    spec = machines.load("rtx-4090")
    summary = summarize(found.values, [one.values for one in found.rounds])
    return gap.gap(found, summary, limit(found.case, spec), gap.context([found], spec))


@pytest.mark.parametrize("case", [case for name in ("graphics", "graphics-small") for case in plan.load(name).cases], ids=lambda case: case.id[:8])
def test_every_case_of_the_plans_has_a_time(case: Case) -> None:
    spec = targets.parse("simulated:rtx-4090")
    target: Any = targets.open_device(spec, targets.find(spec)[0])
    assert 0 < target.call_s(case) < 0.1


@pytest.mark.parametrize(
    ("text", "cause", "limiter"),
    [(FILL, "rop", "ROP"), ("texture side=4096", "texture_unit", "texture unit"), ("overdraw order=back side=2048", "rop", "ROP"), ("texture taps=64 side=4096 texels=4096", "texture_unit", "texture unit")],
)  # fmt: skip
def test_slow_graphics_units_are_a_share_of_the_limit_of_that_unit(text: str, cause: str, limiter: str) -> None:
    found = explained(result(text, "raster=0.8&noise=0.002&seed=5", rounds=1))
    assert (found.cause, found.limiter, found.basis) == (cause, limiter, "drawing")
    assert found.share == pytest.approx(0.8, abs=0.01)


def test_a_rate_says_what_it_counts() -> None:
    units = {name: words.counted_unit(name, "1/s") for name in ("fillrate", "texture", "geometry", "draws", "atomic")}
    assert units == {"fillrate": "pixel/s", "texture": "texel/s", "geometry": "tri/s", "draws": "draw/s", "atomic": "1/s"}
    assert words.quantity(6.23e8, units["fillrate"]) == "623 Mpixel/s"
    assert words.counted_unit("pipeline", "s") == "s"


def test_compiling_is_the_cause_where_pipelines_are_made() -> None:
    assert explained(result("pipeline state=cold", rounds=1)).cause == "compile"


def test_slow_graphics_units_leave_the_rest_alone() -> None:
    slow, usual = (result("stream size=256MiB", f"{fault}noise=0.002&seed=5", rounds=1).values[0] for fault in ("raster=0.5&", ""))
    assert slow == usual


def test_stutter_is_a_notice_and_a_clean_card_has_none() -> None:
    found = result(FILL, "stutter=3@200ms&noise=0.002&seed=5")
    (notice,) = [one for one in found.notices if one.code == "stutter"]
    assert "samples took" in notice.seen
    assert "200 ms" in notice.seen or "201 ms" in notice.seen or "199 ms" in notice.seen
    assert not [one for one in result(FILL).notices if one.code == "stutter"]
    assert not [one for one in result("stream size=256MiB", "stutter=3@200ms&noise=0.002&seed=5").notices if one.code == "stutter"]


def test_the_stutter_of_several_cases_is_one_range() -> None:
    rounds = [
        Samples(case="a", device="d", round=0, values=[0.001] * 9 + [0.001 + more], unit="s", method="wall") for more in (0.0117, 0.0208)
    ]
    assert stuttered(rounds) == "2 of 20 samples took 11.7 to 20.8 ms longer"
    assert stuttered(rounds[:1]) == "1 of 10 samples took 11.7 ms longer"


def test_a_number_of_hidden_pixels_says_so() -> None:
    """Opaque layers below others need not be written; blended ones are."""
    codes = {blend: [one.code for one in result(f"fillrate blend={blend} side=1024").notices] for blend in ("none", "add")}
    assert "hidden_pixels" in codes["none"]
    assert "hidden_pixels" not in codes["add"]


@pytest.mark.parametrize("seconds", [0.05, 0.3])
def test_every_injected_stutter_of_a_short_run_is_noticed(seconds: float) -> None:
    for fault, asked in (("stutter=1@20ms&", True), ("", False)):
        for case in plan.load("graphics").cases:
            spec = targets.parse(f"simulated:rtx-4090?{fault}noise=0.002&seed=5")
            samples = measure(targets.open_device(spec, targets.find(spec)[0]), case, CaseBudget(seconds=seconds, round=0))
            assert any(one.code == "stutter" for one in fold(case, [samples], "simulated").notices) is asked, case.label


def test_one_wrong_tile_is_invalid_in_20_of_20() -> None:
    for seed in range(20):
        found = result(FILL, f"tiles=1&seed={seed}", rounds=1)
        assert found.status == "invalid"
        assert "1 of 64 tiles differ" in found.checks[0].what


def test_a_picture_without_a_wrong_tile_is_right() -> None:
    assert pictures.simulated(0, 3).passed
    assert pictures.simulated(1, 3).error == 1.0


@pytest.mark.parametrize(("options", "words"), [
    ("raster=0", "'raster' must be above 0"), ("stutter=3@", "'stutter' cannot be at the time ''"), ("tiles=1.5", "'tiles' cannot be '1.5'"),
    ("tiles=65", "'tiles' must be from 0 to 64"), ("stutter=-1@1s", "'stutter' must be from 0"),
    ("stutter=3", "as in stutter=3@200ms"), ("stutter=0.05@1s", "a whole number of calls"), ("raster=2", "up to 1, not 2"),
])  # fmt: skip
def test_wrong_faults_are_refused(options: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Faults.parse(targets.parse(f"simulated:rtx-4090?{options}").options)


def test_a_card_of_which_nothing_is_known_draws_nothing() -> None:
    spec = targets.parse("simulated:mi300x")
    target: Any = targets.open_device(spec, targets.find(spec)[0])
    with pytest.raises(NotSupported, match="ROPs"):
        target.prepare(case_of(FILL))
