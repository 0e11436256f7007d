"""The simulated GPU's times exist for every case of every machine whose facts are complete, and never beat the bound."""

from __future__ import annotations

import pytest

from hotlap.core import plan, work
from hotlap.core.errors import NotSupported
from hotlap.core.model import machines
from hotlap.core.model.limits import limit
from hotlap.core.model.simulate import LAUNCH_S, expected_call_s
from hotlap.core.record import Case

CASES = list({case.id: case for name in plan.builtin() for case in plan.load(name).cases}.values())
DRAWN = {case.id for name in plan.builtin() if name.startswith("graphics") for case in plan.load(name).cases}
COMPLETE = ["a100-sxm-80gb", "a100-pcie-40gb", "h100-sxm", "h100-pcie", "h200-sxm", "gh200-96gb", "gh200-144gb"]
NO_RATE = {"fma.int8", "matrix.fp8"}  # no vector int8 is published for them, and A100 has no fp8


@pytest.mark.parametrize("slug", COMPLETE)
def test_every_case_has_a_time_where_the_facts_are_complete(slug: str) -> None:
    spec = machines.load(slug)
    for case in CASES:
        if case.id in DRAWN and spec.rops is None:
            with pytest.raises(NotSupported, match="ROPs"):
                expected_call_s(case, spec)
            continue
        units = set(work.find(case.workload).work(case.params).operations)
        if units & NO_RATE - set(spec.flop_per_clock):
            with pytest.raises(NotSupported, match="no published rate of"):
                expected_call_s(case, spec)
        else:
            assert expected_call_s(case, spec) > 0


@pytest.mark.slow("estimates networks again and again")
@pytest.mark.parametrize("slug", machines.names())
def test_a_case_runs_no_faster_than_its_bound_or_says_what_is_missing(slug: str) -> None:
    spec = machines.load(slug)
    for case in CASES:
        seconds, reason = attempt(case, spec)
        assert "no published" in reason if seconds is None else seconds >= (limit(case, spec).bound_s or 0.0)


def attempt(case: Case, spec: machines.Spec) -> tuple[float | None, str]:
    try:
        return expected_call_s(case, spec), ""
    except NotSupported as error:
        return None, str(error)


def test_large_cases_take_exactly_their_bound() -> None:
    spec = machines.load("h200-sxm")
    given = {"stream": {"size": "1 GiB"}, "fma": {}, "gemm": {"dtype": "bf16"}, "transfer": {"size": "64 MiB"}}
    for case in (plan.case(workload, params) for workload, params in given.items()):
        assert expected_call_s(case, spec) == limit(case, spec).bound_s


def test_b100_has_too_few_facts_to_be_simulated() -> None:
    with pytest.raises(NotSupported, match=r"no published rate of fma\.fp32 on NVIDIA B100"):
        expected_call_s(plan.case("fma", {}), machines.load("b100"))
    with pytest.raises(NotSupported, match="no published clock of NVIDIA B100"):
        expected_call_s(plan.case("chase", {"size": "1 MiB"}), machines.load("b100"))


def test_latency_rises_with_the_working_set_and_graphs_cost_least() -> None:
    spec = machines.load("h100-sxm")
    hops = [expected_call_s(plan.case("chase", {"size": size}), spec) for size in ("64 KiB", "8 MiB", "1 GiB")]
    assert hops == sorted(hops)
    assert len(set(hops)) == 3
    assert LAUNCH_S["graph"] < LAUNCH_S["stream"] < LAUNCH_S["single"]


def test_gathers_fetch_sectors_and_are_slower_than_streams() -> None:
    spec = machines.load("h100-sxm")
    random = plan.case("gather", {"size": "1 GiB"})
    near, far = (plan.case("gather", {"size": "1 GiB", "pattern": "strided", "stride": s}) for s in (1, 16))

    def bandwidth(case: Case) -> float:
        return work.find("gather").value(expected_call_s(case, spec), case.params)

    assert bandwidth(random) < bandwidth(near)
    assert bandwidth(far) < bandwidth(near)


def test_programs_cannot_be_simulated() -> None:
    with pytest.raises(NotSupported):
        expected_call_s(Case(workload="command", params={"argv": ["true"]}), machines.load("h100-sxm"))
