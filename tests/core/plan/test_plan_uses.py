"""Plans with the uses of their cases: read, written, read again; parameters that are younger than their workload."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotlap.core import plan as plans
from hotlap.core.errors import PlanError
from hotlap.core.record import Case, Plan, Use
from hotlap.core.work.base import Param, Work, Workload

GEMM = 'schema = 1\n[[case]]\nworkload = "gemm"\nm = {m}\nn = 512\nk = 64\ndtype = "bf16"\n'


def _read(tmp_path: Path, text: str) -> Plan:
    file = tmp_path / "one.toml"
    file.write_text(text)
    return plans.load(str(file))


def test_a_plan_with_uses_is_written_and_read_again(tmp_path: Path) -> None:
    cases = [plans.case("gemm", {"m": m, "n": 512, "k": 64, "dtype": "bf16"}) for m in (1, 8192)]
    cases.append(plans.case("stream", {"op": "triad", "size": "1 GiB"}))
    uses = [
        Use(case=cases[0].id, step="llama-3-8b decode batch=1", kernel="down", calls=32, expected_s=1.25e-05),
        Use(case=cases[0].id, step="llama-3-8b decode batch=1", kernel='a "quoted" name', calls=0.5),
    ]
    made = Plan(name="net", about="a step", cases=cases, uses=uses, weighed_on="h200-sxm")
    again = _read(tmp_path, plans.text(made, ["two lines", "of comment"]))
    assert again.cases == cases
    assert again.uses == uses
    assert (again.name, again.about, again.weighed_on, again.measure) == (made.name, made.about, made.weighed_on, made.measure)


@pytest.mark.parametrize(
    ("uses", "message"),
    [
        ('uses = [{ step = "a", kernel = "b" }]', "a use needs 'calls'"),
        ('uses = [{ step = "a", kernel = "b", calls = -1 }]', "'calls' must be at least 0"),
        ('uses = [{ step = "a", kernel = "b", calls = 1, what = 2 }]', "a use has no key 'what'"),
        ("uses = 3", "'uses' is a list of tables"),
    ],
)
def test_what_is_wrong_with_uses_is_said(tmp_path: Path, uses: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        _read(tmp_path, GEMM.format(m=4) + uses + "\n")


def test_uses_are_of_one_case(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="this \\[\\[case\\]\\] makes 2; write a \\[\\[case\\]\\] for each"):
        _read(tmp_path, GEMM.format(m="[1, 2]") + 'uses = [{ step = "a", kernel = "b", calls = 1 }]\n')


def test_a_younger_parameter_at_its_default_leaves_a_case_its_id() -> None:
    old = Workload("w", "", (Param("n", "int", "", 1),), "time", "s", "lower", lambda p: Work(read_bytes=float(p["n"])))  # type: ignore[arg-type]
    young = Param("layout", "str", "", "nn", choices=("nn", "nt"), added_after_release=True)
    new = Workload(
        "w", "", (*old.params, young), "time", "s", "lower", lambda p: Work(read_bytes=2.0 if p["layout"] == "nt" else 1.0),
        fault=lambda p: ("layout", "no") if p["layout"] == "nt" and p["n"] == 3 else None,
    )  # fmt: skip
    assert Case(workload="w", params=new.parse({"layout": "nn"})).id == Case(workload="w", params=old.parse({})).id
    assert new.parse({"layout": "nt"}) == {"n": 1, "layout": "nt"}
    assert new.work(old.parse({})).read_bytes == 1.0
    assert new.work(new.parse({"layout": "nt"})).read_bytes == 2.0
    assert new.fault({"n": 3}) is None
    assert new.fault({"n": 3, "layout": "nt"}) == ("layout", "no")


def test_numbers_with_many_digits_keep_a_case_its_id(tmp_path: Path) -> None:
    given = {"name": "own", "settings": ["n=7"], "bytes": 34 / 9 * 1e6, "operations": 1e17 + 2e15, "unit_of_arithmetic": "fma.fp32"}
    case = plans.case("kernel", given)
    assert _read(tmp_path, plans.text(Plan(name="p", cases=[case]))).cases == [case]


def test_a_plan_is_shown_with_the_defaults_that_cases_leave_out() -> None:
    cases = [plans.case("gemm", {"m": 8, "n": 8, "k": 8, "layout": layout}) for layout in ("nn", "nt")]
    shown = plans.show(Plan(name="two", cases=cases))
    assert "layout nn, nt" in shown
    assert "epilogue" not in shown
