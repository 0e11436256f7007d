"""What users' kernels leave in memory, and at work: zones beside inputs, outputs that are no results, threads that go on."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hotlap.core.measure.workloads.operators.memory import octets, overlaps, tensors

ZONE_BYTES = 4096  # before and after each tensor; keeps the alignment that allocators give
PATTERN = 0xA5
PAUSE_S, LONGEST_S, QUIET = 0.001, 3.0, 3
SPUN_S = 0.03  # of a processor: threads of OpenMP spin for a quarter of this after each region (libgomp: 300,000 turns), before they sleep
BUSY_SHARE = 0.05  # of a pause that others compute through where they go on, where the system does not tell of threads
TASKS = Path("/proc/self/task")


def guarded(torch: Any, value: Any) -> Any:
    """The same content, strides and type in memory with a zone of known bytes on either side. What has no plain memory stays as it is:
    sparse tensors, tensors whose elements overlap, numbers; lists are guarded one by one."""
    if isinstance(value, (list, tuple)):
        return type(value)(guarded(torch, one) for one in value)
    if type(value) is not torch.Tensor or value.layout is not torch.strided or overlaps(value):
        return value
    room = _span(value) * value.element_size()
    flat = torch.full((2 * ZONE_BYTES + -(-room // 64) * 64,), PATTERN, dtype=torch.uint8, device=value.device)
    inside = flat[ZONE_BYTES : ZONE_BYTES + room].view(value.dtype)
    made = inside.as_strided(value.shape, value.stride())
    made.copy_(value)
    return made


def _span(value: Any) -> int:
    """Elements from the first to the last, gaps between rows included."""
    if value.numel() == 0:
        return 0
    return 1 + sum((int(size) - 1) * int(stride) for size, stride in zip(value.shape, value.stride(), strict=True))


def written_outside(torch: Any, inputs: Mapping[str, Any]) -> str:
    """The name of the first input beside whose memory something was written; "" where all zones are as they were."""
    for name, tensor in tensors(torch, inputs):
        memory = octets(torch, tensor)
        if memory is None or tensor.storage_offset() * tensor.element_size() != ZONE_BYTES:
            continue
        end = ZONE_BYTES + _span(tensor) * tensor.element_size()
        if bool((memory[:ZONE_BYTES] != PATTERN).any()) or bool((memory[end:] != PATTERN).any()):
            return name
    return ""


def not_plain(torch: Any, outputs: Sequence[Any], inputs: Mapping[str, Any], place: Any, writes: Sequence[str]) -> str:
    """Why outputs cannot stand as results: not plain tensors, elsewhere, or in memory that holds an input; "" where they can."""
    own = {one.untyped_storage().data_ptr() for name, one in tensors(torch, inputs) if name not in writes and one.layout is torch.strided}
    for number, tensor in enumerate(outputs):
        which = f"output {number}"
        if type(tensor) is not torch.Tensor:
            what = f"{type(tensor).__module__}.{type(tensor).__qualname__}"
            return f"{which} is no plain tensor but {what}: its work may be put off until it is read"
        if tensor.device.type != torch.device(place).type:
            return f"{which} lies on {tensor.device}, not on {place}"
        if tensor.layout is torch.strided and tensor.numel() and tensor.untyped_storage().data_ptr() in own:
            return f"{which} lies in the memory of an input that it may not change"
    return ""


def shared(torch: Any, first: Sequence[Any], second: Sequence[Any], inputs: Mapping[str, Any], writes: Sequence[str]) -> str:
    """Why the outputs of two calls are not two results; "" where each has memory of its own, or that of inputs it writes."""
    may = {one.untyped_storage().data_ptr() for name, one in tensors(torch, inputs) if name in writes}
    for number, (one, two) in enumerate(zip(first, second, strict=False)):
        if one.layout is torch.strided and one.numel() and two.layout is torch.strided:
            here = one.untyped_storage().data_ptr()
            if here == two.untyped_storage().data_ptr() and here not in may:
                return f"output {number} of two calls is the same memory: a result is kept and handed out again"
    return ""


def goes_on(pause: Callable[[float], None], clock: Callable[[], float], others_s: Callable[[], float]) -> bool:
    """Whether other threads of the process compute while nothing was asked of them: not for a moment, as those of a pool that spin before
    they sleep, but until each that is at work has used more of a processor than that. One that waits for the interpreter, which this holds
    when it looks, seems asleep: they are asleep when they are so QUIET times on end. `others_s`: processor time of all of them.
    On a busy host they wait for it, and so does this; if they get none at all, nothing is said."""
    began, used_s = clock(), others_s()
    most = quiet = 0
    while clock() - began < LONGEST_S:
        before, asked = others_s(), clock()
        pause(PAUSE_S)
        busy = _others_ready() if TASKS.is_dir() else int(others_s() - before > BUSY_SHARE * (clock() - asked))
        quiet = 0 if busy else quiet + 1
        if quiet == QUIET:
            return False
        most = max(most, busy)
        if most and others_s() - used_s > SPUN_S * most:
            return True
    return False


def _others_ready() -> int:
    """Threads beside this one that run or wait for a processor; on a busy host they may get none, and are ready all the same."""
    own, found = str(threading.get_native_id()), 0
    for task in TASKS.iterdir():
        with contextlib.suppress(OSError):
            found += task.name != own and (task / "stat").read_text().rpartition(")")[2].split()[0] == "R"
    return found
