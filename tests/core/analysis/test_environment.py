"""What differs between two environments, and whether it matters."""

from __future__ import annotations

from judging import H200, make
from msgspec.structs import replace

from hotlap.core.analysis import environment
from hotlap.core.record import MeasureOptions

ONE = make({"copy": [1.0]})


def test_the_same_environment_differs_in_nothing() -> None:
    assert environment.differences([ONE.run], [make({"copy": [2.0]}, day=3).run]) == []


def test_a_driver_matters_a_serial_number_does_not() -> None:
    other = make({"copy": [1.0]}, device=replace(H200, driver="560.35", uuid="GPU-1"), host="node2")
    found = {d.name: d for d in environment.differences([ONE.run], [other.run])}
    assert (found["device.driver"].a, found["device.driver"].b, found["device.driver"].matters) == ("550.54", "560.35", "yes")
    assert found["device.uuid"].matters == found["host"].matters == "no"
    assert environment.explaining(found.values(), "bandwidth") == ["device.driver"]


def test_what_matters_stands_first_and_what_is_not_known_of_counts() -> None:
    other = make({"copy": [1.0]}, software={"libmagic": "3"}, kernel="Linux 6.2", host="x")
    found = environment.differences([ONE.run], [other.run])
    assert [(d.name, d.matters) for d in found] == [("kernel", "yes"), ("software.libmagic", "unknown"), ("host", "no")]
    assert found[0].a == "not known"
    assert environment.explaining(found, "latency") == ["kernel", "software.libmagic"]


def test_a_setting_that_moves_bandwidth_explains_no_arithmetic() -> None:
    ecc = [make({"copy": [1.0]}, device=replace(H200, facts={"nvml": {"ecc": on, "power_limit_w": 700.0}})).run for on in (True, False)]
    found = environment.differences(ecc[:1], ecc[1:])
    assert [d.name for d in found] == ["device.ecc"]
    assert environment.explaining(found, "bandwidth") == ["device.ecc"]
    assert environment.explaining(found, "compute") == []


def test_figures_are_shown_with_their_units() -> None:
    capped = make({"copy": [1.0]}, device=replace(H200, facts={"nvml": {"power_limit_w": 500.0}})).run
    full = make({"copy": [1.0]}, device=replace(H200, facts={"nvml": {"power_limit_w": 700.0}})).run
    (found,) = environment.differences([capped], [full])
    assert (found.a, found.b) == ("500.0 W", "700.0 W")


def test_other_targets_and_models_are_apart() -> None:
    b200 = make({"copy": [1.0]}, device=replace(H200, machine="b200")).run
    assert environment.apart([ONE.run], [b200]) == "A is of h200-sxm, B is of b200"
    assert "was measured through" in environment.apart([ONE.run], [replace(ONE.run, target="opencl")])
    assert environment.apart([ONE.run], [make({"copy": [1.0]}, day=9, host="y").run]) == ""


def test_options_in_one_text_or_table_are_compared_key_by_key() -> None:
    for facts in ("noise=0.01&seed=101", {"noise": "0.01", "seed": "101"}):
        one = make({"copy": [1.0]}, device=replace(H200, facts={"injected": facts})).run
        other = make({"copy": [1.0]}, device=replace(H200, facts={"injected": "noise=0.01&seed=102"})).run
        (found,) = environment.differences([one], [other])
        assert (found.name, found.a, found.b, found.matters) == ("injected.seed", "101", "102", "no")


def test_what_was_brought_in_was_asked_nothing() -> None:
    brought = replace(ONE.run, kind="imported")
    assert brought.asked is None
    other = replace(brought, plan=replace(ONE.run.plan, measure=MeasureOptions(round_s=1.0)))
    assert environment.differences([brought], [other]) == []


def test_packages_of_cuda_matter_where_a_cuda_device_was_measured() -> None:
    bare, full = (make({"copy": [1.0]}, software={"torch": "2.9", **more}).run for more in ({}, {"cuda-bindings": "13.5.0", "nvidia-cuda-nvrtc": "13.0"}))
    for target, kind, matters in (("opencl", "cpu", "no"), ("torch:cpu", "cpu", "no"), ("torch", "gpu", "yes"), ("cuda", "gpu", "yes")):
        device = replace(H200, target=target.partition(":")[0], kind=kind)
        pair = [replace(run, target=target, devices=[device.key], machine=replace(run.machine, devices=[device])) for run in (bare, full)]
        found = environment.differences(pair[:1], pair[1:])
        assert [(one.name, one.matters) for one in found] == [("software.cuda-bindings", matters), ("software.nvidia-cuda-nvrtc", matters)]
        assert (found[0].a, found[0].b) == ("not installed", "13.5.0")


def test_a_side_that_lists_no_packages_does_not_say_that_one_is_not_installed() -> None:
    (found,) = environment.differences([ONE.run], [make({"copy": [1.0]}, software={"torch": "2.9"}).run])
    assert (found.a, found.b) == ("not known", "2.9")
