"""SPIR-V modules: entry points and their instructions. Source: Khronos, SPIR-V specification 1.6, section 2.3 and 3."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from hotlap.core.errors import InputError

MAGIC = 0x07230203
ENTRY_POINT, FUNCTION, FUNCTION_END = 15, 54, 56
NAMES = {  # opcodes by name, of those that are counted
    12: "OpExtInst",
    57: "OpFunctionCall",
    61: "OpLoad",
    62: "OpStore",
    109: "OpConvertFToU",
    110: "OpConvertFToS",
    111: "OpConvertSToF",
    112: "OpConvertUToF",
    113: "OpUConvert",
    114: "OpSConvert",
    115: "OpFConvert",
    117: "OpConvertPtrToU",
    120: "OpConvertUToPtr",
    124: "OpBitcast",
    126: "OpSNegate",
    127: "OpFNegate",
    128: "OpIAdd",
    129: "OpFAdd",
    130: "OpISub",
    131: "OpFSub",
    132: "OpIMul",
    133: "OpFMul",
    134: "OpUDiv",
    135: "OpSDiv",
    136: "OpFDiv",
    137: "OpUMod",
    138: "OpSRem",
    139: "OpSMod",
    140: "OpFRem",
    141: "OpFMod",
    148: "OpDot",
    164: "OpLogicalEqual",
    166: "OpLogicalOr",
    167: "OpLogicalAnd",
    168: "OpLogicalNot",
    169: "OpSelect",
    170: "OpIEqual",
    171: "OpINotEqual",
    172: "OpUGreaterThan",
    173: "OpSGreaterThan",
    176: "OpULessThan",
    177: "OpSLessThan",
    180: "OpFOrdEqual",
    184: "OpFOrdLessThan",
    186: "OpFOrdGreaterThan",
    194: "OpShiftRightLogical",
    195: "OpShiftRightArithmetic",
    196: "OpShiftLeftLogical",
    197: "OpBitwiseOr",
    198: "OpBitwiseXor",
    199: "OpBitwiseAnd",
    200: "OpNot",
    224: "OpControlBarrier",
    225: "OpMemoryBarrier",
    227: "OpAtomicLoad",
    228: "OpAtomicStore",
    234: "OpAtomicIAdd",
    245: "OpPhi",
    249: "OpBranch",
    250: "OpBranchConditional",
    251: "OpSwitch",
    253: "OpReturn",
    254: "OpReturnValue",
    255: "OpUnreachable",
    4459: "OpCooperativeMatrixMulAddKHR",
}
_LABELS = {55, 248, 1, 8, 317, 43, 44, 41, 42, 46, 59, 65, 66, 67, 70, 246, 247}  # parameters, labels, constants, variables, addresses


def read(data: bytes, name: str) -> Mapping[str, list[str]]:
    """Instructions of each entry point's own function. Raises InputError for a file that is no SPIR-V, or is cut short."""
    if len(data) < 20 or len(data) % 4 or struct.unpack_from("<I", data)[0] != MAGIC:
        raise InputError(f"{name}: not SPIR-V: its first word is not 0x{MAGIC:08x}")
    entries: dict[int, str] = {}
    bodies: dict[int, list[str]] = {}
    here: list[str] | None = None
    for opcode, words in _instructions(data, name):
        if opcode == ENTRY_POINT and len(words) > 2:
            entries[words[1]] = struct.pack(f"<{len(words) - 2}I", *words[2:]).split(b"\0")[0].decode(errors="replace")
        elif opcode == FUNCTION and len(words) > 1:
            here = bodies.setdefault(words[1], [])
        elif opcode == FUNCTION_END:
            here = None
        elif here is not None and opcode not in _LABELS:
            here.append(NAMES.get(opcode, f"Op{opcode}"))
    return {title: bodies.get(number, []) for number, title in entries.items()}


def _instructions(data: bytes, name: str) -> Iterator[tuple[int, tuple[int, ...]]]:
    words = struct.unpack(f"<{len(data) // 4}I", data)
    at = 5
    while at < len(words):
        length = words[at] >> 16
        if not length or at + length > len(words):
            raise InputError(f"{name}: cut short: an instruction of {length} words at word {at} of {len(words)}")
        yield words[at] & 0xFFFF, words[at + 1 : at + length]
        at += length
