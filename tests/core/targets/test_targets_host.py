"""The host as a target: it times what is called, and refuses in one line what needs a device."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

from hotlap.core.errors import InputError, NotSupported
from hotlap.core.measure import targets
from hotlap.core.measure.targets.base import Buffer
from hotlap.core.measure.targets.host import HostTarget
from hotlap.core.measure.workloads import prepare
from hotlap.core.record import Case
from hotlap.core.work import find

PROGRAM = Case(workload="command", params=find("command").parse({"argv": ["true"]}))
STREAM = Case(workload="stream", params=find("stream").parse({"op": "copy", "size": "1 MiB"}))


def test_it_is_found_and_says_who_it_is() -> None:
    device = targets.find(targets.parse("host"))[0]
    assert (device.selector, device.kind, device.compute_units) == ("host:0", "cpu", os.cpu_count())
    assert device.name
    assert device.key == f"host:0:{device.name}"
    assert device.memory_bytes is None or device.memory_bytes > 2**20
    assert "host:0" in [one.selector for one in targets.survey()[0]]


def test_the_index_that_devices_prints_names_one_device() -> None:
    assert targets.find(targets.parse("host:0")) == targets.find(targets.parse("host"))
    (simulated,) = targets.find(targets.parse("simulated:h200-sxm"))
    assert simulated.selector == "simulated:0", "its part is a model, not an index"


def test_a_batch_takes_as_long_as_its_calls() -> None:
    target, calls = HostTarget(), list[int]()

    def enqueue(count: int) -> None:
        calls.append(count)
        target.clock.sleep(0.01 * count)

    found = target.time(enqueue, 3)
    assert (calls, found.device_s) == ([3], None)
    assert found.wall_s >= 0.03
    assert 0 < target.timer_resolution_s < 1e-3


@pytest.mark.parametrize("ask", [
    lambda host: host.buffer(8), lambda host: host.kernel("KERNEL void f() {}", "f"), lambda host: host.time(lambda _: None, 1, graph=True),
    lambda host: host.read(Buffer(None, 8, "device", np.dtype(np.uint8))), lambda host: prepare(host, STREAM, 1),
])
def test_what_needs_a_device_is_refused_with_what_to_do(ask: Callable[[HostTarget], object]) -> None:
    with pytest.raises(NotSupported, match="--target opencl, cuda or torch") as refused:
        ask(HostTarget())
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("text", "message"), [("host:cpu", "valid: host"), ("host?seed=1", "takes no options, not 'seed'"), ("host:3", "host has no device 3; valid: host, host:0")])
def test_a_usage_error_gets_one_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        targets.find(targets.parse(text))


def test_programs_alone_run_on_the_host_unless_a_target_is_named() -> None:
    assert targets.chosen("", [PROGRAM, PROGRAM]).text == "host"
    assert targets.chosen("simulated:h200-sxm", [PROGRAM]).text == "simulated:h200-sxm"


def test_a_plan_with_other_cases_runs_where_kernels_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "survey", lambda: ([*targets.find(targets.TargetSpec("host")), *targets.find(targets.parse("simulated:h200-sxm"))], {}))
    assert targets.chosen("", [PROGRAM, STREAM]).name == "simulated"
