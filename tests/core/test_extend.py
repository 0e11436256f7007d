"""The table of features: resolved on first use, the same in worker processes, and a clear line for a feature that is broken."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from hotlap.core import extend
from hotlap.core.errors import MachineError, SchemaError
from hotlap.core.measure.protocol import Job
from hotlap.core.record import Machine, MeasureOptions, Plan, RunRecord
from hotlap.core.show import kinds
from hotlap.core.store.bundle import Bundle


def test_a_line_names_a_module_or_a_thing_in_it() -> None:
    extend.use({"numbers": {"pi": "math:pi", "cmath": "cmath"}})
    assert extend.find("numbers", "pi") == pytest.approx(3.14159, rel=1e-5)
    assert extend.find("numbers", "e") is None
    assert [getattr(one, "__name__", one) for one in extend.each("numbers")][1] == "cmath"
    assert list(extend.each("nothing")) == []


def test_nothing_is_imported_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "brought_later.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    extend.use({"kinds": {"later": "brought_later"}})
    assert "brought_later" not in sys.modules
    assert extend.find("kinds", "later").x == 1


@pytest.mark.parametrize(("content", "line"), [("x = (", "broken_a"), ("import not_there_at_all", "broken_b"), ("x = 1", "broken_c:y")])
def test_a_feature_that_does_not_load_is_named(content: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"{line.partition(':')[0]}.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MachineError, match=f"{line.partition(':')[0]} does not load") as error:
        extend.resolve(line)
    assert "\n" not in str(error.value)


def test_a_worker_gets_the_table_in_its_job() -> None:
    extend.use({"implementers": {"pi": "math:pi"}})
    job = Job(spec="opencl", device=0, device_key="d", round=0, cases=[], options=MeasureOptions(), seed=1)
    extend.use({})
    extend.use(msgspec.json.decode(msgspec.json.encode(job), type=Job).features)
    assert extend.table() == {"implementers": {"pi": "math:pi"}}


def test_a_run_of_a_kind_that_no_feature_shows_says_which_version_does() -> None:
    run = RunRecord(id="20261121T101500-aaaaaa", kind="serving", began="", hotlap="0.9.0", plan=Plan(name="x"), machine=Machine(host=""), target="", devices=[])
    with pytest.raises(SchemaError, match=r"is of kind 'serving', written by Hotlap 0\.9\.0; no feature of this Hotlap shows it"):
        kinds.of(Bundle(run, Path("x")))
