"""ELF files of 64 bits, little endian: sections and symbols. Source: System V ABI, gABI 4.1, chapters 4 and 5."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

from hotlap.core.errors import InputError

MAGIC = b"\x7fELF"
X86_64, CUDA, AMDGPU = 62, 190, 224  # e_machine
SYMBOLS, NOTE, NO_BITS = 2, 7, 8  # sh_type
FUNCTION = 2  # st_info & 15
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
MOST_SECTIONS = 1 << 20


@dataclass(frozen=True)
class ElfSection:
    name: str
    kind: int
    data: bytes  # empty of a section that takes no room in the file
    size: int
    link: int


@dataclass(frozen=True)
class Symbol:
    name: str
    kind: int
    size: int
    other: int


class Elf:
    """A file's sections. Raises InputError for what is cut short or not ELF of 64 bits."""

    def __init__(self, data: bytes, name: str) -> None:
        self.data, self.name = data, name
        if data[:4] != MAGIC or len(data) < _HEADER.size:
            raise InputError(f"{name}: not an ELF file")
        if data[4:6] != b"\x02\x01":
            raise InputError(f"{name}: an ELF file of 32 bits or with the most significant byte first; kernels are 64-bit, little endian")
        head = _HEADER.unpack_from(data)
        self.abi, self.machine, self.flags = data[7:9], head[2], head[7]
        self._offset, self._count, self._names = head[6], head[12], head[13]
        if self._count and head[11] != _SECTION.size:
            raise InputError(f"{name}: section headers of {head[11]} bytes, not {_SECTION.size}: damaged")

    @cached_property
    def sections(self) -> list[ElfSection]:
        rows = [self._unpack(_SECTION, self._offset + n * _SECTION.size) for n in range(min(self._count, MOST_SECTIONS))]
        if not rows:
            return []
        if self._names >= len(rows):
            raise InputError(f"{self.name}: its section of names has number {self._names} of {len(rows)}: damaged")
        names = self._bytes(rows[self._names][4], rows[self._names][5])
        return [
            ElfSection(_text(names, row[0]), row[1], b"" if row[1] == NO_BITS else self._bytes(row[4], row[5]), row[5], row[6])
            for row in rows
        ]

    @cached_property
    def symbols(self) -> list[Symbol]:
        table = next((one for one in self.sections if one.kind == SYMBOLS), None)
        if table is None or table.link >= len(self.sections):
            return []
        names = self.sections[table.link].data
        found = []
        for at in range(0, len(table.data) - _SYMBOL.size + 1, _SYMBOL.size):
            name, info, other, _, _, size = _SYMBOL.unpack_from(table.data, at)
            found.append(Symbol(_text(names, name), info & 15, size, other))
        return found

    def section(self, name: str) -> ElfSection | None:
        return next((one for one in self.sections if one.name == name), None)

    def _unpack(self, kind: struct.Struct, at: int) -> tuple[int, ...]:
        if at < 0 or at + kind.size > len(self.data):
            raise InputError(f"{self.name}: cut short: a section's header at byte {at} of {len(self.data)}")
        return kind.unpack_from(self.data, at)

    def _bytes(self, at: int, size: int) -> bytes:
        if at + size > len(self.data):
            raise InputError(f"{self.name}: cut short: a section ends at byte {at + size} of {len(self.data)}")
        return self.data[at : at + size]


def _text(table: bytes, at: int) -> str:
    end = table.find(b"\0", at)
    return table[at : end if end >= 0 else len(table)].decode(errors="replace") if at < len(table) else ""
