"""Numbers of Hotlap 0.1 beside those of today: they compare with a notice, and its baselines raise no false alarm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as with_fields

from judging import NAMED, make
from msgspec.structs import replace

from hotlap.core.analysis import compare, verdicts
from hotlap.core.analysis import rows as tables
from hotlap.core.analysis.reference import AgainstBaseline
from hotlap.core.record import METHOD
from hotlap.core.store import baselines, lines, upgrade
from hotlap.core.store.bundle import Bundle
from hotlap.core.store.files import SAMPLES

LEVEL = [1.00e-3, 1.01e-3, 0.99e-3, 1.005e-3, 0.995e-3, 1.0e-3]


def of_method(bundle: Bundle, method: int) -> Bundle:
    return with_fields(bundle, run=replace(bundle.run, method=method))


def clock_jumped(bundle: Bundle, rounds: Sequence[int]) -> Bundle:
    """As 0.1 kept it, read today: rounds whose clock varied are invalid, with their samples."""
    reason = "the clock jumped between 1.79 and 2.37 GHz during the case"
    kept = [replace(one, status="invalid", reason=reason) if one.round in rounds else one for one in bundle.samples]
    return with_fields(bundle, samples=upgrade.samples(b"".join(map(lines.line, kept)).replace(b'"values":', b'"seconds":'), SAMPLES).records)


def test_two_methods_compare_with_a_notice() -> None:
    old, new = make({"copy": LEVEL}), of_method(make({"copy": LEVEL}, day=1), METHOD)
    (found,) = compare.compare([old], [new])
    assert any("measured in two ways, A by method 1 and B by method 2" in notice.text for notice in found.notices)
    (same,) = compare.compare([new], [of_method(make({"copy": LEVEL}, day=2), METHOD)])
    assert not any("two ways" in notice.text for notice in same.notices)


def test_a_clock_that_jumped_in_0_1_is_a_number_like_others() -> None:
    (row,) = tables.rows(clock_jumped(make({"copy": LEVEL}), [2, 4]))
    assert (row.result.status, len(row.result.values), row.verdict.state) == ("measured", 6, "inconclusive")


def test_a_baseline_of_0_1_raises_no_false_alarm() -> None:
    old = [clock_jumped(make({"copy": [s * f for s in LEVEL]}, day=day), [day % 6]) for day, f in enumerate((1.0, 1.004, 0.997, 1.002, 0.999))]
    learnt = baselines.learn("old", old)
    new = of_method(make({"copy": [s * 1.001 for s in LEVEL]}, day=9), METHOD)
    judged = verdicts.judge("r", tables.rows(new), AgainstBaseline(learnt, new.run.machine))
    assert judged.state != "fail"
    assert NAMED["copy"].id in {reference.case.id for reference in learnt.references}
