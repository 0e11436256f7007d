"""Implementations that were measured in one run, or in runs one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from judging import GEMM, H200, NAMED, make
from msgspec import UNSET
from msgspec.structs import replace

from hotlap.core.analysis import rows
from hotlap.core.analysis.implementations import beside
from hotlap.core.record import Comparison, Notice
from hotlap.core.show import document
from hotlap.core.show import implementations as show
from hotlap.core.store.bundle import Bundle

BUSY = Notice(code="busy", seen="other programs ran during 70 % of the samples")


@pytest.fixture(autouse=True)
def _mine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NAMED, "mine", replace(GEMM, implementation="mine"))


def seconds(level: float, sd: float = 0.05) -> list[float]:
    return (level * np.exp(np.random.default_rng(3).normal(0, sd, 12))).tolist()


def busy(bundle: Bundle) -> Bundle:
    return Bundle(bundle.run, bundle.path, [replace(one, notices=[BUSY]) for one in bundle.samples])


def answered(*bundles: Bundle, stable: bool = False) -> Comparison:
    ((_, entry),) = (one.entries for one in beside(bundles, stable=stable))
    assert entry.comparison
    return entry.comparison


def test_runs_one_after_the_other_are_allowed_the_machines_drift() -> None:
    together = make({"gemm": seconds(1e-3), "mine": seconds(0.95e-3, 0.04)})
    assert answered(together).allowance is None
    card = replace(H200, target="cuda")
    library, mine = (make({name: seconds(s, 1e-4)}, day=s, device=card) for name, s in (("gemm", 1e-3), ("mine", 0.3e-3)))
    apart = answered(library, mine)
    assert apart.allowance is not None
    assert (apart.allowance.basis, apart.answer) == ("table", "faster")
    stable = answered(library, mine, stable=True)
    assert stable.allowance is not None
    assert stable.allowance.basis == "stable"
    assert apart.low is not None
    assert stable.low is not None
    assert apart.low < stable.low
    assert "one after the other" in show.beside(beside([library, mine]), 300, False)


def test_others_that_may_have_made_the_difference_leave_no_answer_and_the_doubt_is_printed() -> None:
    """Three times as fast, by two runs one after the other of which one is inconclusive since other programs ran. They only ever make a
    side slower: beside mine they cannot have made it faster."""
    library, mine = make({"gemm": seconds(3e-3)}), make({"mine": seconds(1e-3)}, day=0.01)
    assert answered(library, mine).answer == "faster"
    assert answered(library, busy(mine)).answer == "faster"
    doubted = answered(busy(library), mine)
    assert doubted.answer == "inconclusive"
    assert doubted.reason.startswith("faster by these numbers, but other programs ran while library was measured: by how much its rounds differ, ")
    said = " ".join(show.beside(beside([busy(library), mine]), 300, False).split())
    assert "1 inconclusive; " in said
    assert doubted.reason in said
    assert "3.00 × ?" in said
    slower = answered(library, busy(make({"mine": seconds(9e-3)}, day=0.01)))
    assert slower.answer == "inconclusive"
    assert slower.reason.startswith("slower by these numbers, but other programs ran while mine was measured")


def test_the_allowance_names_the_implementations() -> None:
    card = replace(H200, target="cuda")
    library, mine = (make({name: seconds(s, 1e-4)}, day=s, device=card) for name, s in (("gemm", 1e-3), ("mine", 0.3e-3)))
    said = " ".join(show.beside(beside([library, mine]), 300, False).split())
    assert "library and mine were measured one after the other" in said
    assert "A and B" not in said


def test_scripts_read_of_an_implementation_what_show_says_of_its_case() -> None:
    """An interval of a third of the value was "measured", without codes, beside the same case's "inconclusive"."""
    bundle = busy(make({"gemm": seconds(1e-3, 0.4), "mine": seconds(0.95e-3, 1e-4)}))
    shown = {one.implementation: one for one in document.of_runs([(bundle, rows.rows(bundle))])["cases"]}
    wide, narrow = document.of_implementations(beside([bundle]), 0)["cases"]
    assert (wide.state, narrow.state) == ("inconclusive", "measured")
    for one, own in ((wide, shown[UNSET]), (narrow, shown["mine"])):
        assert (one.state, one.codes, one.value, one.low, one.high) == (own.state, own.codes, own.value, own.low, own.high)
    assert "busy" in wide.codes
    assert wide.reason == shown[UNSET].reason
    assert "answer_codes" in narrow.more
