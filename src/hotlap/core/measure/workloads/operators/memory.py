"""Memory of inputs and outputs: copies, fingerprints of their content, poison, and whether two results are the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def copyable(torch: Any, inputs: Mapping[str, Any]) -> bool:
    """Whether every tensor among the inputs can be copied as it lies in memory."""
    return all(type(one) is torch.Tensor and (one.layout is not torch.strided or not overlaps(one)) for _, one in tensors(torch, inputs))


def copied(torch: Any, value: Any) -> Any:
    """The same, with its strides, in memory of its own. Lists are copied one by one."""
    if isinstance(value, (list, tuple)):
        return type(value)(copied(torch, one) for one in value)
    if not isinstance(value, torch.Tensor):
        return value
    if value.layout is not torch.strided:
        return value.clone()
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device).copy_(value)


def overlaps(value: Any) -> bool:
    """Whether two indices may mean the same memory, as in an expanded tensor."""
    reach = 1
    for stride, size in sorted((stride, size) for size, stride in zip(value.shape, value.stride(), strict=True) if size > 1):
        if stride < reach:
            return True
        reach = stride * size
    return False


def tensors(torch: Any, inputs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every tensor among the inputs with its name, those of lists too."""
    for name, value in inputs.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, torch.Tensor):
                yield name, one


def octets(torch: Any, tensor: Any) -> Any:
    """All of a strided tensor's allocation as bytes, zones included; None where there is none."""
    if tensor.layout is not torch.strided:
        return None
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def fingerprint(torch: Any, inputs: Mapping[str, Any], but: Sequence[str] = ()) -> dict[str, tuple[int, ...]]:
    """Sums of all memory behind each input, as whole numbers and by place in a line of 64 B; without those named in `but`."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, tensor in tensors(torch, inputs):
        memory = None if name in but else octets(torch, tensor)
        if memory is not None and memory.numel():
            even = memory.numel() % 64 == 0 and memory.data_ptr() % 8 == 0
            words = memory.view(torch.int64).view(-1, 8) if even else memory.view(-1, 1)
            shapes[name] = (*shapes.get(name, ()), *words.sum(0, dtype=torch.int64).tolist())
    return shapes


def poison(torch: Any, outputs: Sequence[Any], inputs: Mapping[str, Any]) -> None:
    """NaN or −1 into memory that the next call is likely to get; memory of inputs is left alone."""
    own = {one.untyped_storage().data_ptr() for _, one in tensors(torch, inputs) if one.layout is torch.strided}
    for one in outputs:
        if one.layout is torch.strided and one.untyped_storage().data_ptr() not in own:
            one.fill_(float("nan") if one.is_floating_point() else True if one.dtype is torch.bool else -1 if one.dtype.is_signed else 255)


def equal(torch: Any, first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether two lists of results are the same bit by bit."""
    return all(
        one.shape == two.shape and bool(torch.equal(_bits(torch, one), _bits(torch, two))) for one, two in zip(first, second, strict=True)
    )


def _bits(torch: Any, value: Any) -> Any:
    return value.to_dense().contiguous().view(-1).view(torch.uint8) if value.layout is not torch.strided else (
        value.contiguous().view(-1).view(torch.uint8)
    )
