"""What the target webgpu promises beside the contract of all targets; without wgpu or an adapter these are skipped with its reason."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from hotlap.core.errors import DoesNotCompile, InputError, MachineError, NotSupported, Unavailable
from hotlap.core.measure import targets, workloads
from hotlap.core.measure.loop import CaseBudget, measure
from hotlap.core.measure.targets import webgpu, wgsl
from hotlap.core.work import case_of

TWO = """
fn twice(x: u32) -> u32 { return 2u * x; }
KERNEL first(out: write u32, n: u32) { if (ID < n) { out[ID] = twice(ID); } }
KERNEL second(sums: atomic u32, data: read S) {
    DO atomicAdd(&sums[#], u32(data[ID]));
}
"""


@pytest.fixture(name="target", scope="module")
def opened(webgpu_target: Any) -> Any:
    return webgpu_target



def test_a_kernel_is_taken_out_of_its_source() -> None:
    found = wgsl.taken(TWO, "second", ["S=float", "CHAINS=3"])
    assert (found.buffers, found.scalars) == (("atomic", "read"), ())
    assert "first" not in found.text
    assert "fn twice" in found.text
    assert [f"&sums[{n}]" in found.text for n in range(4)] == [True, True, True, False]


@pytest.mark.parametrize(
    ("source", "says"),
    [("KERNEL other() {}", "no KERNEL mine"), ("KERNEL mine(a: write f32) { if (true) {", "brace"), ("KERNEL mine(a: f64) {}", "'a: f64'")],
)
def test_a_heading_that_is_none_is_refused(source: str, says: str) -> None:
    with pytest.raises(DoesNotCompile, match=says):
        wgsl.taken(source, "mine")


def test_without_the_package_one_line_says_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wgpu", None)
    webgpu._wgpu.cache_clear()
    webgpu._adapters.cache_clear()
    try:
        with pytest.raises(Unavailable, match="pip install wgpu") as refused:
            targets.find(targets.parse("webgpu"))
        assert "\n" not in str(refused.value)
    finally:
        webgpu._wgpu.cache_clear()
        webgpu._adapters.cache_clear()


def test_without_an_adapter_one_line_says_what_brings_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own: the loader of Vulkan reads its drivers once."""
    pytest.importorskip("wgpu")
    none = {**os.environ, "VK_DRIVER_FILES": "/nonexistent", "VK_ICD_FILENAMES": "/nonexistent"}
    script = "import sys; from hotlap.cli import main; sys.exit(main(['bench', 'fillrate', '--target', 'webgpu']))"
    answer = subprocess.run([sys.executable, "-c", script], env=none, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (3, "")
    assert "wgpu finds no adapter; install a driver of Vulkan" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_an_adapter_that_is_lost_ends_the_round(target: Any) -> None:
    mine, draws = webgpu.open(target.device), case_of("fillrate side=64 layers=4")
    prepared = workloads.prepare(mine, draws, 1)
    mine.raw.destroy()
    with pytest.raises(MachineError, match="is lost"):
        mine.time(prepared.enqueue, 1)
    for case in (draws, case_of("stream size=1MiB")):  # none is said to be unsupported
        with pytest.raises(MachineError, match="device is lost"):
            measure(mine, case, CaseBudget(seconds=0.05))


def test_a_part_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="webgpu:gpu"):
        targets.find(targets.parse("webgpu:metal"))


def test_a_software_adapter_is_named_as_one_and_never_the_default(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if target.device.kind != "cpu":
        pytest.skip("the first adapter is a GPU")
    assert target.device.name.endswith("a software adapter")
    with pytest.raises(Unavailable, match="wgpu finds no GPU here"):
        targets.find(targets.parse("webgpu:gpu"))
    monkeypatch.setattr(targets, "TARGETS", {"webgpu": ""})
    with pytest.raises(Unavailable):
        targets.default()


def test_a_timer_that_lies_is_refused_and_the_wall_clock_used(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = webgpu.WebGpuTarget._stamped_s
    monkeypatch.setattr(webgpu.WebGpuTarget, "_stamped_s", lambda self: 0.01 * honest(self))
    lying = webgpu.open(target.device)
    lying.timer_refused = lying._timer_fault()
    assert "times the wall clock" in lying.timer_refused
    samples = measure(lying, case_of("stream size=1MiB"), CaseBudget(seconds=0.05))
    assert samples.status == "measured", samples.reason
    assert samples.wall_ratio is None
    assert "timer_refused" in {notice.code for notice in samples.notices}


@pytest.mark.parametrize(
    "text",
    [
        "stream size=1MiB", "stream op=read size=3MiB", "stream op=write size=16KiB", "gather size=1MiB", "gather pattern=strided size=1MiB",
        "chase size=256KiB", "atomic", "barrier", "launch mode=stream", "sync", "fma operations=1e8", "fma dtype=int32 operations=1e8",
        "intensity fmas=4 size=1MiB",
    ],
)  # fmt: skip
def test_workloads_in_wgsl_give_the_right_answer(target: Any, text: str) -> None:
    prepared = workloads.prepare(target, case_of(text), 7)
    target.time(prepared.enqueue, prepared.multiple)
    check = prepared.check()
    assert check.passed, check


def test_loops_that_a_software_adapter_would_cut_short_are_parted(target: Any) -> None:
    turns = int(target.device.facts.get("most_turns", 0))
    if not turns:
        pytest.skip("this adapter ends no loop early")
    prepared = workloads.prepare(target, case_of("chase size=64KiB hops=150000"), 7)
    prepared.enqueue(1)
    assert prepared.check().passed
    kernel, out = target.kernel(webgpu.SPIN, "spin"), target.buffer(np.zeros(1, np.float32))
    assert turns > webgpu.SPIN_TURNS
    kernel(1, 1, out, np.uint32(10))
    with pytest.raises(NotSupported, match="leaves loops"):
        workloads.prepare(target, case_of("intensity fmas=4096 size=256MiB"), 7)


def test_more_than_a_kernel_may_see_is_refused(target: Any) -> None:
    most = target.limits["max-storage-buffer-binding-size"]
    if most > 2**28:
        pytest.skip("this adapter binds more than a test should allocate")
    kernel = target.kernel(TWO, "first")
    with pytest.raises(NotSupported, match="may see"):
        kernel(64, 64, target.buffer(most + 4), np.uint32(1))


@pytest.mark.parametrize("text", ["fillrate side=8192", "overdraw side=16384 layers=2", "texture side=4096 taps=16"])
def test_a_software_adapter_refuses_what_it_cannot_draw_in_a_round(target: Any, text: str) -> None:
    if target.device.kind != "cpu":
        pytest.skip("the adapter here is no software")
    samples = measure(target, case_of(text), CaseBudget(seconds=0.01, round=0))
    assert samples.status == "not_run"
    assert "a software adapter longer than a round" in samples.reason
