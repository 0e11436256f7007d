"""How events of Chrome's trace format are decoded: a type per phase, with only those arguments that analyses use."""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec
from msgspec import Raw, Struct

SKIPPED = ("s", "t", "f", "I", "C", "N", "O", "D", "P", "R", "c", "(", ")", "v", "V", "a", "n", "T", "p", "F")
NOTHING = Raw(b"")
Whole = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]  # what a column holds; anything beyond is not believed


class Args(Struct, frozen=True, gc=False):
    """Arguments that analyses use; the others are not even decoded."""

    external: Whole = msgspec.field(name="External id", default=-1)
    external_old: Whole = msgspec.field(name="external id", default=-1)
    correlation: Whole = -1
    device: Whole = -1
    stream: Whole | str = -1  # 0x0 in calls of HIP
    bytes: Whole = -1
    size: Whole = -1
    sequence: Whole = msgspec.field(name="Sequence number", default=-1)
    dims: Raw = msgspec.field(name="Input Dims", default=NOTHING)
    types: Raw = msgspec.field(name="Input type", default=NOTHING)
    strides: Raw = msgspec.field(name="Input Strides", default=NOTHING)
    values: Raw = msgspec.field(name="Concrete Inputs", default=NOTHING)
    stack: Raw = msgspec.field(name="Call stack", default=NOTHING)
    grid: Raw = NOTHING
    block: Raw = NOTHING
    registers: Whole = msgspec.field(name="registers per thread", default=-1)
    shared: Whole = msgspec.field(name="shared memory", default=-1)
    occupancy: float = msgspec.field(name="est. achieved occupancy %", default=-1.0)
    collective: str = msgspec.field(name="Collective name", default="")
    dtype: str = ""
    elements_in: Whole = msgspec.field(name="In msg nelems", default=-1)
    elements_out: Whole = msgspec.field(name="Out msg nelems", default=-1)
    group: str = msgspec.field(name="Process Group Name", default="")
    ranks: Whole = msgspec.field(name="Group size", default=0)


class FewArgs(Struct, frozen=True, gc=False):
    """For the breakdown."""

    device: Whole = -1
    stream: Whole | str = -1


ARGS, FEW_ARGS = Args(), FewArgs()


class _Complete(Struct, gc=False):
    """What both kinds of complete event have."""

    name: str = ""
    cat: str = ""
    ts: float = math.nan
    dur: float = 0.0
    pid: int | str = ""
    tid: int | str = ""


class Event(_Complete, gc=False, tag_field="ph", tag="X"):
    """A complete event."""

    args: Args = ARGS


class FewEvent(_Complete, gc=False, tag_field="ph", tag="X"):
    """The same for the breakdown."""

    args: FewArgs = FEW_ARGS


class Label(Struct, gc=False, tag_field="ph", tag="M"):
    """Metadata: names of threads and processes."""

    name: str = ""
    pid: int | str = ""
    tid: int | str = ""
    args: dict[str, Any] = {}


class PhaseBegin(Struct, gc=False, tag_field="ph", tag="B"):
    """Half of an event."""

    name: str = ""
    cat: str = ""
    ts: float = math.nan
    pid: int | str = ""
    tid: int | str = ""
    args: Args = ARGS


class End(Struct, gc=False, tag_field="ph", tag="E"):
    """The other half."""

    name: str = ""
    ts: float = math.nan
    pid: int | str = ""
    tid: int | str = ""


class InstantArgs(Struct, frozen=True, gc=False):
    """Of an allocation."""

    change: Whole = msgspec.field(name="Bytes", default=0)
    total: Whole = msgspec.field(name="Total Allocated", default=-1)
    reserved: Whole = msgspec.field(name="Total Reserved", default=-1)
    address: Whole = msgspec.field(name="Addr", default=-1)
    device: Whole = msgspec.field(name="Device Id", default=-1)


INSTANT_ARGS = InstantArgs()


class Instant(Struct, gc=False, tag_field="ph", tag="i"):
    """A moment; of interest where memory is allocated or freed."""

    name: str = ""
    ts: float = math.nan
    pid: int | str = ""
    tid: int | str = ""
    args: InstantArgs = INSTANT_ARGS


_PHASES = [msgspec.defstruct(f"Phase{ord(ph)}", [], tag_field="ph", tag=ph, gc=False) for ph in (*SKIPPED, "b", "S", "e")]


def _decoder(event: type) -> msgspec.json.Decoder[Any]:
    union: Any = event
    for one in (Label, PhaseBegin, End, Instant, *_PHASES):
        union = union | one
    return msgspec.json.Decoder(list[union])


DECODERS = {"all": _decoder(Event), "breakdown": _decoder(FewEvent)}
PIECE = msgspec.json.Decoder(list[Raw])
SINGLE = {name: msgspec.json.Decoder(decoder.type.__args__[0]) for name, decoder in DECODERS.items()}
