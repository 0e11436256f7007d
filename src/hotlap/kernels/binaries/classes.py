"""Instructions by class, from their names: what a kernel's code is made of.

Sources of names: CUDA Binary Utilities, tables of instruction sets; PTX ISA; AMD CDNA3 and RDNA3 ISA guides; SPIR-V specification 1.6.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

CLASSES = ("matrix", "fma", "half", "double", "special", "integer", "convert", "global", "shared", "local", "constant", "control", "other")
_SASS = (
    ("other", r"U?MOV|S2R|S2UR|CS2R|MOVM|SHFL"),
    ("matrix", r"[HIDQOBF]MMA|[HIQBO]GMMA|UTC\w*MMA|BMMA"),
    ("double", r"D(FMA|ADD|MUL|SETP|MNMX)"),
    ("half", r"H(FMA|ADD|MUL|MNMX|SET|SETP)2?"),
    ("special", r"MUFU"),
    ("convert", r"[FI]2[FI]P?|FRND|I2IP|F2FP|I2FP"),
    ("fma", r"F(FMA|ADD|MUL|MNMX|SEL|SET|SETP|CHK|SWZADD)\w*"),
    ("global", r"LDG\w*|STG|RED|REDG|ATOMG?|LDGSTS|UTMA\w*|UBLK\w*|CCTL\w*|LD|ST|SUATOM|SULD|SUST|TEX|TLD\w*"),
    ("shared", r"LDS|LDSM|STS|STSM|ATOMS|LDT|STT|LDTM|STTM|SYNCS|UTCCP|UTCATOMSWS"),
    ("local", r"LDL|STL"),
    ("constant", r"U?LDC\w*"),
    (
        "control",
        (
            r"BRA|BRX|JMP|JMX|EXIT|RET|CALL|BSSY|BSYNC|BREAK|BAR|BARRIER|WARPSYNC|NANOSLEEP|DEPBAR|LDGDEPBAR|MEMBAR|ERRBAR|WARPGROUP\w*"
            r"|YIELD|KILL|BPT|BMOV|PREEXIT|ACQBULK|ELECT|FENCE|ENDCOLLECTIVE|LEPC|RPCMOV|UCGABAR\w*|R2UR|CGAERRBAR"
        ),
    ),
    (
        "integer",
        (
            r"U?(IMAD|IADD3?|IMUL\w*|LOP3?|SHF|SHL|SHR|LEA|ISETP|IMNMX|VIMNMX\w*|VIADD\w*|IABS|PRMT|SEL|SGXT|POPC|FLO|BREV|BMSK|PLOP3|P2R|R2P"
            r"|IDP\w*|ISCADD|XMAD|LOP|IADDC|VIADDMNMX|IADD|VABSDIFF\w*|VOTE\w*|REDUX)"
        ),
    ),
)
_PTX = (
    ("matrix", r"wmma\.mma\S*|mma\.\S+|wgmma\.mma\S*|tcgen05\.mma\S*"),
    ("convert", r"cvt\.\S+"),
    ("special", r"(sin|cos|ex2|lg2|rcp|rsqrt|sqrt|tanh|div)\.\S*f\d\d\S*"),
    ("double", r"(fma|add|sub|mul|min|max|setp|neg|abs)\.\S*f64\S*"),
    ("half", r"(fma|add|sub|mul|min|max|setp|set|neg|abs)\.\S*(b?f16)(x2)?\S*"),
    ("fma", r"(fma|mad|add|sub|mul|min|max|setp|selp|neg|abs)\.\S*f32\S*"),
    ("shared", r"(ld|st|atom|red|ldmatrix|stmatrix)\S*\.shared\S*|ldmatrix\S*|stmatrix\S*|mbarrier\S*|tcgen05\.(ld|st|cp)\S*"),
    ("local", r"(ld|st)\S*\.local\S*"),
    ("constant", r"ld\S*\.(const|param)\S*|st\S*\.param\S*"),
    ("global", r"(ld|ldu|st|atom|red|prefetch|cp)\.\S+|ld|st|tex\S*|suld\S*|sust\S*"),
    (
        "control",
        r"bra\S*|brx\S*|call\S*|ret\S*|exit|bar\S*|barrier\S*|membar\S*|fence\S*|trap|brkpt|griddepcontrol\S*|wgmma\.\S+|tcgen05\.\S+|elect\S*|nanosleep\S*",
    ),
    (
        "integer",
        (
            r"(add|sub|mul|mad|mul24|mad24|sad|div|rem|abs|neg|min|max|and|or|xor|not|cnot|lop3|shf|shl|shr|bfe|bfi|bfind|popc|clz|brev|prmt|set|setp"
            r"|selp|slct|mov|dp4a|dp2a|vote|match|shfl|activemask|redux|cvta|isspacep|addc|subc|madc|szext|bmsk|fns)\S*"
        ),
    ),
)
_AMD = (
    ("matrix", r"v_(s?mfmac?|wmma|swmmac)_\S+"),
    ("double", r"v_\S*_f64\S*"),
    ("special", r"v_(exp|log|rcp|rsq|sqrt|sin|cos)\S*"),
    ("convert", r"v_cvt\S*"),
    ("half", r"v_(pk_)?\S*_(b?f16)\S*"),
    ("fma", r"v_\S*_f32\S*"),
    ("shared", r"ds_\S+"),
    ("local", r"scratch_\S+"),
    ("global", r"(global|buffer|flat)_\S+"),
    ("constant", r"s_(buffer_)?load_\S+"),
    ("control", r"s_(c?branch|barrier|waitcnt|endpgm|setpc|swappc|sleep|nop|call|trap|wait|delay)\S*"),
    ("integer", r"[vs]_\S+"),
)
_SPIRV = (
    ("matrix", r"OpCooperativeMatrixMulAdd\S*"),
    ("special", r"OpExtInst"),
    ("convert", r"Op(Convert|SConvert|UConvert|FConvert|Bitcast)\S*"),
    ("fma", r"OpF(Add|Sub|Mul|Div|Negate|Rem|Mod|Ord|Unord)\S*|OpDot|Op(Vector|Matrix)\S*Times\S*"),
    ("global", r"OpLoad|OpStore|OpAtomic\S*|OpImage\S*"),
    ("control", r"OpBranch\S*|OpReturn\S*|OpSwitch|OpFunctionCall|OpControlBarrier|OpMemoryBarrier|OpKill|OpUnreachable|OpPhi"),
    (
        "integer",
        r"Op(I|S|U)(Add|Sub|Mul|Div|Rem|Mod|Negate|Equal|NotEqual|GreaterThan|LessThan)\S*|OpShift\S*|OpBit\S*|OpLogical\S*|OpSelect|OpNot",
    ),
)
LANGUAGES = {
    name: [(kind, re.compile(rf"(?:{pattern})")) for kind, pattern in table]
    for name, table in (("SASS", _SASS), ("PTX", _PTX), ("AMDGCN", _AMD), ("SPIR-V", _SPIRV))
}
PADDING = {"NOP", "s_nop", "s_code_end", "v_nop"}  # fills code up to alignment
_NARROW = re.compile(r"(?<![a-z0-9])(bf16|f16|e4m3|e5m2|e2m1|s8|u8|BF16|F16|E4M3|E5M2|E2M1|S8|U8)(?:x\d)?(?![a-z0-9])")
_SAME = {"f16": "fp16", "bf16": "bf16", "e4m3": "fp8", "e5m2": "fp8", "e2m1": "fp4", "s8": "int8", "u8": "int8"}


def kind(instruction: str, language: str) -> str:
    """The class of an instruction's name with its modifiers: HMMA.16816.F32, mma.sync.aligned…, v_mfma_f32_32x32x8_f16."""
    name = instruction.partition(".")[0] if language == "SASS" else instruction
    for found, pattern in LANGUAGES[language]:
        if pattern.fullmatch(name):
            return found
    return "other"


def mix(instructions: Iterable[str], language: str) -> tuple[dict[str, int], dict[str, int]]:
    """Counts by class in the order of `CLASSES`, and matrix instructions by name. Padding is left out."""
    names = Counter(one for one in instructions if one.partition(".")[0] not in PADDING)
    classes: Counter[str] = Counter()
    matrix: dict[str, int] = {}
    for name, many in names.items():
        found = kind(name, language)
        classes[found] += many
        if found == "matrix":
            matrix[name] = many
    return {one: classes[one] for one in CLASSES if classes[one]}, dict(sorted(matrix.items(), key=lambda pair: -pair[1]))


def narrow(instructions: Iterable[str]) -> list[str]:
    """Types of 16 bits and less that products of these instructions, or conversions from them, name: what a matrix unit would take."""
    found = {_SAME[name.lower()] for one in set(instructions) for name in _NARROW.findall(one)}
    return sorted(found)
