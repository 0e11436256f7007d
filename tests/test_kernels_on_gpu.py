"""The script that holds PyTorch's kernels against the model on a GPU: its shapes, its printing, and a run on a processor."""

import importlib.util
import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from hotlap.core.model.predict import predict

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "kernels_on_gpu.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("kernels_on_gpu", SCRIPT)
    found = importlib.util.module_from_spec(spec)
    sys.modules["kernels_on_gpu"] = found
    spec.loader.exec_module(found)
    return found


def line(script, measured: float, family: str = "softmax", how: str = "in a graph"):
    return script.Line(family, "softmax rows=4096", how, measured, 9e-6, 10e-6, 13e-6)


def test_every_shape_is_one_that_the_model_knows(script) -> None:
    families = {one.family for one in script.shapes()}
    assert {"prefill", "decode", "layernorm", "rmsnorm", "softmax", "elementwise", "embedding", "transpose"} == families
    for one in script.shapes():
        found = predict(one.workload, "h200-sxm", **one.params)
        assert 0 < found.low_s <= found.expected_s <= found.high_s


def test_a_line_shows_what_was_measured_beside_the_interval(script) -> None:
    inside, outside = script.shown(line(script, 8e-6)), script.shown(line(script, 20e-6))
    assert "8.00 µs" in inside
    assert "9.00 µs" in inside
    assert "+25.0%" in inside
    assert "outside of the interval" in inside
    assert "-50.0%" in outside
    assert "outside" not in script.shown(line(script, 11e-6))


def test_families_are_summed_up_apart_by_how_they_were_timed(script) -> None:
    rows = [line(script, 8e-6), line(script, 12.5e-6), line(script, 10e-6, how="alone, L2 flushed"), line(script, 5e-6, "transpose")]
    text = script.summary(rows)
    assert len(text) == 3
    assert "2 shapes  MAPE  22.5%  bias  +2.5%  1 within" in text[0]
    assert script.summary([]) == ["nothing was compared with the model"]


def test_what_fails_is_told_and_not_scored(script) -> None:
    def randn(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA out of memory\nand more")

    broken = SimpleNamespace(bfloat16=None, float32=None, nn=SimpleNamespace(functional=None), randn=randn)
    (found,) = script.lines(next(script.shapes()), broken, "cuda", "h200-sxm")
    assert "not run, because CUDA out of memory" in script.shown(found)
    assert "and more" not in script.shown(found)
    assert found.error is None


def test_power_is_shown_beside_the_model(script) -> None:
    row = {"load": "gemm bf16 8192", "readings": 40, "power_w": 690.0, "clock_hz": 1.5e9, "expected_power_w": 700.0, "expected_clock_hz": None}
    text = script.power_line(row)
    assert "690 W measured, 700 W expected (+1.4%)" in text
    assert "1.50 GHz measured, nothing expected" in text


class Stream:
    """torch.cuda's streams, events and graphs, by a host that takes LAUNCH_S to launch a graph and a device that takes KERNEL_S for a call."""

    LAUNCH_S, KERNEL_S = 8e-6, 3e-6

    def __init__(self, script) -> None:
        self.host_s = self.device_s = 0.0
        self.graph_s = script.CALLS * self.KERNEL_S
        self.cuda = SimpleNamespace(
            Stream=lambda: None, stream=lambda _: nullcontext(), synchronize=self.wait, graph=lambda _: nullcontext(),
            CUDAGraph=lambda: SimpleNamespace(replay=self.replay), Event=lambda enable_timing: Event(self),
        )

    def wait(self) -> None:
        self.host_s = max(self.host_s, self.device_s)

    def replay(self) -> None:
        self.host_s += self.LAUNCH_S
        self.device_s = max(self.device_s, self.host_s) + self.graph_s


class Event:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def record(self) -> None:
        self.at_s = max(self.stream.device_s, self.stream.host_s)

    def synchronize(self) -> None:
        self.stream.host_s = max(self.stream.host_s, self.at_s)

    def elapsed_time(self, end: "Event") -> float:
        return (end.at_s - self.at_s) * 1e3


def test_a_graphs_launch_is_not_in_its_figure(script) -> None:
    stream = Stream(script)
    assert script.graph_s(lambda: None, stream) == pytest.approx(Stream.KERNEL_S)


def test_power_is_read_of_the_device_that_pytorch_uses_and_not_of_nvmls_first(script, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA's device 0 of two, of which NVML has the other one first."""
    uuids = ["22222222-89ab-cdef-0123-456789abcdef", "11111111-89ab-cdef-0123-456789abcdef"]
    asked = []
    monkeypatch.setattr(script.nvml, "opened", lambda device: asked.append(device.uuid) or SimpleNamespace(n="nvml", handle="second"))

    def properties(index: int) -> SimpleNamespace:
        return SimpleNamespace(name="NVIDIA Test", uuid=uuids[index], total_memory=2**36, major=9, minor=0, multi_processor_count=132)

    cuda = SimpleNamespace(current_device=lambda: 0, get_device_properties=properties)
    torch = SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip=None, cuda="13.0"), __version__="2.13.0", get_num_threads=lambda: 1)
    assert script.sensor(torch) == ("nvml", "second")
    assert asked == [f"GPU-{uuids[0]}"]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True, timeout=300, check=False)


def test_a_run_on_a_processor_shows_that_it_works(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    out = tmp_path / "kernels.jsonl"
    done = run("--device", "cpu", "--out", str(out), "--budget", "60")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(one) for one in out.read_text(encoding="utf-8").splitlines()]
    assert rows
    assert all(one["measured_s"] > 0 and one["error"] is None for one in rows)
    assert "nothing was compared with the model" in done.stdout


def test_what_is_missing_is_named() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    assert "a processor has no NVML" in run("power", "--device", "cpu").stdout
    assert run("--device", "cpu", "--machine", "h300").returncode == 2
    if not torch.cuda.is_available():
        done = run()
        assert (done.returncode, done.stdout) == (3, "")
        assert "sees no GPU" in done.stderr
