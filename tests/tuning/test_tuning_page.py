"""How a search stands on its page: the answer once, a legend of the colours, units, and room for its table."""

from __future__ import annotations

import pytest

from hotlap.core.measure import runs
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.measure.targets import host
from hotlap.core.record import Plan
from hotlap.core.show import layout
from hotlap.tuning import show, show_kind
from hotlap.tuning.record import DroppedSetting, TuningAsked, TuningKept, TuningOutcome, TuningSetting, TuningTrial
from hotlap.tuning.session import TuningRead

WINNER, OTHER = [TuningSetting("PAUSE", "fast")], [TuningSetting("PAUSE", "slow")]
DROPPED = [DroppedSetting(settings=OTHER, code="failed", reason="the script ended with status 3: " + "no file was there " * 9)]


def shown(answer: str, unit: str = "s") -> TuningRead:
    done = TuningOutcome(
        answer=answer, winner=WINNER, ratio=0.5, low=0.4, high=0.6, pairs=6, runs={"as_found": 1, "confirmation": 2}, dropped=DROPPED,  # type: ignore[arg-type]
    )  # fmt: skip
    asked = TuningAsked(subject="sh toy.sh", kind="program", goal="time", unit=unit)
    trials = [
        TuningTrial(number=number, phase="confirmation", settings=settings, value=value)
        for number, (settings, value) in enumerate([([], 0.06), (WINNER, 0.03), (OTHER, 0.12), ([], 0.061)])
    ]
    device = host.describe()
    record = runs.record(Plan(name="tuning"), "host", [device], fingerprint([device]), kind="tuning")
    return TuningRead(record, TuningKept(asked=asked, outcome=done), trials)


def test_the_chart_of_runs_has_a_legend_and_units() -> None:
    page = show_kind.section(shown("gain"))
    assert '<span class="key s0">as found</span> <span class="key s1">the winner, PAUSE=fast</span> <span class="key s2">others</span>' in page
    assert "<b>Runs</b> time of each, in their order; those of the confirmation are last: " in page
    assert ">100 ms</text>" in page
    assert "PAUSE=slow: 120.0 ms, confirmation" in page
    assert "the best candidate, PAUSE=fast" in show_kind.section(shown("nothing"))
    assert ">0.100 widgets</text>" in show_kind.section(shown("gain", "widgets"))


def test_the_answer_stands_on_a_page_once() -> None:
    whole = show_kind.lead(shown("gain")) + show_kind.section(shown("gain"))
    assert whole.count("answer: PAUSE=fast") == 1


def test_on_a_phone_the_rows_of_the_table_are_stacked_with_what_each_cell_is() -> None:
    page = show_kind.section(shown("gain"))
    assert '<table class="results stack labelled">' in page
    assert 'data-h="cost seen"' in page


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_was_dropped_fits_the_terminal(width: int) -> None:
    lines = layout.fitted(show.dropped_table(DROPPED).columns, width).lines(False)
    assert max(map(len, lines)) <= width
    assert max(map(len, show.text(shown("gain"), width, False).splitlines())) <= width
