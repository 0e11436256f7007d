"""Ids of the cases of built-in plans: by them results of one version are compared with those of another."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from hotlap.core import plan, work
from hotlap.core.record import Case
from hotlap.core.work.base import Param

KEPT = Path(__file__).with_name("ids.json")
IDS: dict[str, list[str]] = json.loads(KEPT.read_text(encoding="utf-8"))
"""Of each built-in plan, its cases' ids in order."""


@pytest.mark.parametrize("name", plan.builtin())
def test_ids_of_a_built_in_plan_are_those_of_the_version_before(name: str) -> None:
    assert name in IDS, f"add the ids of the plan {name} to {KEPT.name}"
    found = [case.id for case in plan.load(name).cases]
    changed = [f"{now} was {before}" for now, before in zip(found, IDS[name], strict=False) if now != before]
    assert found == IDS[name], (
        f"{len(changed)} ids of {name} changed, {len(found)} cases instead of {len(IDS[name])}: results kept until now will not be compared "
        "with new ones. A new parameter of an old workload is added_after_release, and its default means what was measured before; a new "
        f"case stands at the end of its plan, and its id in {KEPT.name}. {'; '.join(changed[:3])}"
    )


def test_a_parameter_added_after_release_leaves_ids_alone_at_its_default() -> None:
    before = work.find("transpose")
    young = Param("tile", "int", "", 32, low=1, added_after_release=True)
    after = dataclasses.replace(before, params=(*before.params, young))
    assert after.case({"rows": 64}).id == before.case({"rows": 64}).id
    assert after.case({"rows": 64, "tile": 32}).id == before.case({"rows": 64}).id
    assert after.case({"rows": 64, "tile": 16}).id != before.case({"rows": 64}).id


def test_a_new_parameter_that_is_not_marked_changes_ids() -> None:
    before = work.find("transpose")
    after = dataclasses.replace(before, params=(*before.params, Param("tile", "int", "", 32, low=1)))
    assert after.case({"rows": 64}).id != before.case({"rows": 64}).id


def test_parameters_added_after_release_have_defaults_that_their_cases_leave_out() -> None:
    for workload in work.WORKLOADS.values():
        for param in (one for one in workload.params if one.added_after_release):
            assert param.default is not None, f"{workload.name} {param.name}"
            assert param.name not in workload.lean(workload.defaults)
            assert Case(workload=workload.name, params={}).id != Case(workload=workload.name, params={param.name: param.default}).id
