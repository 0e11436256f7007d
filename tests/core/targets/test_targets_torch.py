"""The PyTorch target beyond what the conformance suite asks of every target."""

from __future__ import annotations

import numpy as np
import pytest

from hotlap.core.errors import InputError, NotSupported, Unavailable
from hotlap.core.measure.targets import torch as target_torch
from hotlap.core.measure.targets.host import host_memory

torch = pytest.importorskip("torch")


def _cpu() -> target_torch.TorchTarget:
    (device,) = target_torch.find("cpu")
    return target_torch.open(device)


def test_the_cpu_is_always_there_and_says_how_many_threads() -> None:
    (device,) = target_torch.find("cpu")
    assert (device.kind, device.selector) == ("cpu", "torch:0")
    assert device.facts["place"] == "cpu"
    assert device.facts["threads"] == torch.get_num_threads()
    assert device.driver.startswith(f"PyTorch {torch.__version__}")


def test_without_a_part_the_best_device_is_found() -> None:
    kinds = {device.kind for device in target_torch.find()}
    assert kinds == {"gpu" if torch.cuda.is_available() or torch.xpu.is_available() or torch.backends.mps.is_available() else "cpu"}


def test_a_part_that_is_not_here_says_so() -> None:
    absent = [part for part in ("cuda", "xpu", "mps") if not target_torch._count(torch, part)]
    for part in absent:
        with pytest.raises(Unavailable, match=f"sees no {part} device"):
            target_torch.find(part)
    with pytest.raises(InputError, match="valid: torch:cuda, torch:xpu, torch:mps, torch:cpu"):
        target_torch.find("tpu")


@pytest.mark.parametrize(("versions", "remedy"), [
    ((None, None), "install its build for cuda, or use torch:cpu"),
    (("13.0", None), "it is built for CUDA 13.0: check nvidia-smi and CUDA_VISIBLE_DEVICES, or use torch:cpu"),
    ((None, "7.1"), "it is built for ROCm 7.1: check rocm-smi and HIP_VISIBLE_DEVICES, or use torch:cpu"),
])  # fmt: skip
def test_a_build_for_gpus_that_sees_none_needs_no_other_build(
    versions: tuple[str | None, str | None], remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in zip(("cuda", "hip"), versions, strict=True):
        monkeypatch.setattr(torch.version, name, value)
    if target_torch._count(torch, "cuda"):
        pytest.skip("a GPU is here")
    with pytest.raises(Unavailable) as raised:
        target_torch.find("cuda")
    assert raised.value.remedy == remedy


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8", "int64", "bool"])
def test_a_handle_is_a_flat_tensor_of_the_same_type(dtype: str) -> None:
    buffer = _cpu().buffer(np.ones((3, 5), dtype))
    assert buffer.handle.dtype == getattr(torch, dtype)
    assert tuple(buffer.handle.shape) == (15,)
    assert buffer.nbytes == buffer.handle.numel() * buffer.handle.element_size()


def test_read_only_arrays_are_taken_without_a_word(recwarn: pytest.WarningsRecorder) -> None:
    data = np.arange(10.0)
    data.flags.writeable = False
    target = _cpu()
    assert np.array_equal(target.read(target.buffer(data)), data)
    assert not recwarn.list


def test_the_cpu_has_no_device_timer_no_graphs_and_no_pinned_memory() -> None:
    target = _cpu()
    assert target.time(lambda calls: None, 3).device_s is None
    for refused in (lambda: target.time(lambda calls: None, 3, graph=True), lambda: target.buffer(8, "pinned")):
        with pytest.raises(NotSupported):
            refused()


def test_host_memory_is_not_promised_beyond_what_is_free() -> None:
    available = host_memory("MemAvailable")
    if available is None:
        pytest.skip("this system does not say how much memory is free")
    with pytest.raises(NotSupported, match="do not fit"):
        _cpu().buffer(2 * available + (1 << 30))
