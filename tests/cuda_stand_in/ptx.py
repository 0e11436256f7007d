#!/usr/bin/env python3
"""PTX, as NVRTC makes it, to C that this processor runs: one function a kernel, with loops over blocks and their threads.

A kernel without barriers runs each thread to its end. One with `bar.sync` keeps the registers of every thread and comes back to where
it waited, until all have ended; a thread may end while others wait, as on the chip; threads at different barriers are a fault.

    python ptx.py kernel.ptx kernel.so
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # started with -I
from ptx_code import BITS, WIDTHS, Instructions, Untranslatable, plain, split

FLAGS = ("-O2", "-march=native", "-ffp-contract=off", "-fno-strict-aliasing", "-shared", "-fPIC", "-w")
AXES = "xyz"
DIMENSIONS = " ".join(f"const uint32_t ntid_{x} = g->block[{i}], nctaid_{x} = g->grid[{i}], ctaid_{x} = b[{i}], tid_{x} = n[{i}];" for i, x in enumerate(AXES))
BLOCKS = "for (b[2] = 0; b[2] < g->grid[2]; b[2]++) for (b[1] = 0; b[1] < g->grid[1]; b[1]++) for (b[0] = 0; b[0] < g->grid[0]; b[0]++)"
THREADS = "for (n[2] = 0; n[2] < g->block[2]; n[2]++) for (n[1] = 0; n[1] < g->block[1]; n[1]++) for (n[0] = 0; n[0] < g->block[0]; n[0]++)"

TO_THE_END = """
INLINE void thread_{name}(const uint8_t *p, const Launch *g, const uint32_t *b, const uint32_t *n) {{
{dimensions}
{registers}
{body}
}}
void run_{name}(const uint8_t *p, const Launch *g) {{
    uint32_t b[3], n[3];
    {blocks} {threads} thread_{name}(p, g, b, n);
}}
"""
WITH_BARRIERS = """
typedef struct {{ int at; {registers} }} Registers_{name}; /* at: the barrier it waits at; 0: begins, -1: has ended */
static void thread_{name}(const uint8_t *p, const Launch *g, const uint32_t *b, const uint32_t *n, Registers_{name} *t) {{
{dimensions}
switch (t->at) {{ case 0:;
{body}
}}
t->at = -1;
}}
static _Thread_local Registers_{name} all_{name}[1024];
void run_{name}(const uint8_t *p, const Launch *g) {{
    uint32_t b[3], n[3];
    {blocks} {{
        memset(all_{name}, 0, sizeof(Registers_{name}) * g->block[0] * g->block[1] * g->block[2]);
        for (int alive = 1; alive;) {{
            int barrier = 0;
            Registers_{name} *t = all_{name};
            alive = 0;
            {threads} {{
                if (t->at >= 0) thread_{name}(p, g, b, n, t);
                if (t->at >= 0) {{
                    if (barrier && barrier != t->at) {{ *g->fault = 1; return; }}
                    barrier = t->at;
                    alive = 1;
                }}
                t++;
            }}
        }}
    }}
}}
"""


class Kernel:
    """One `.entry`: its parameters as the driver lays them out, its registers, its shared arrays and its instructions."""

    def __init__(self, name: str, parameters: str, body: str) -> None:
        self.name = name
        self.offsets: dict[str, int] = {}
        self.sizes: list[int] = []
        self._parameters(parameters)
        self.registers: dict[str, str] = {}
        self.shared: dict[str, int] = {}
        self.shared_bytes = 0
        self.lines = [line for line in _lines(body) if not self._declares(line)]

    def _parameters(self, text: str) -> None:
        end = 0
        for declared in split(text):
            match = re.fullmatch(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\b[\s.\w]*\s)?([\w$]+)(?:\[(\d+)\])?", declared.strip())
            if not match:
                raise Untranslatable(f"parameter {declared}")
            octets = int(match[4]) if match[4] else WIDTHS[match[2]] // 8
            align = int(match[1]) if match[1] else WIDTHS[match[2]] // 8
            self.offsets[match[3]] = end = -(-end // align) * align
            self.sizes.append(octets)
            end += octets

    def _declares(self, line: str) -> bool:
        if match := re.fullmatch(r"\.reg\s+\.(\w+)\s+(.*);", line):
            for register in match[2].split(","):
                name, _, count = register.strip().rstrip(">").partition("<")
                kept = BITS[max(WIDTHS[match[1]], 8)]
                self.registers |= {plain(name) + str(i): kept for i in range(int(count))} if count else {plain(name): kept}
        elif match := re.fullmatch(r"\.shared\s+\.align\s+(\d+)\s+\.b8\s+([\w$]+)\[(\d+)\];", line):
            self.shared[match[2]] = self.shared_bytes = -(-self.shared_bytes // 16) * 16
            self.shared_bytes += int(match[3])
        elif line.startswith(".") and not line.startswith((".pragma", ".loc", ".file")):
            raise Untranslatable(f"directive {line}")
        return line.startswith(".")

    def c(self) -> str:
        waits = any(re.match(r"(@\S+\s+)?bar(rier)?\.", line) for line in self.lines)
        code = Instructions(self.registers, self.offsets, self.shared, waits)
        body = [f"{plain(line[:-1])}:;" if line.endswith(":") else "    " + code.translate(line.rstrip(";").strip()) for line in self.lines]
        registers = " ".join(f"{kept} r_{name};" for name, kept in self.registers.items())
        parts = {"name": self.name, "registers": registers, "body": "\n".join(body), "dimensions": DIMENSIONS, "blocks": BLOCKS, "threads": THREADS}
        sizes, offsets = (", ".join(map(str, values)) or "0" for values in (self.sizes, self.offsets.values()))
        layout = f"const int sizes_{self.name}[] = {{{sizes}}}, offsets_{self.name}[] = {{{offsets}}};"
        numbers = f"const int count_{self.name} = {len(self.sizes)}, shared_{self.name} = {self.shared_bytes};"
        return (WITH_BARRIERS if waits else TO_THE_END).format(**parts) + numbers + layout + "\n"


def _lines(body: str) -> list[str]:
    """Labels, declarations and instructions, one each; braces of inline PTX around them are dropped."""
    lines: list[str] = []
    for piece in re.split(r"(?<=;)|\n", body):
        rest = piece.strip()
        while match := re.match(r"(\$?[\w$]+:)\s*(.*)", rest):
            lines.append(match[1])
            rest = match[2].strip()
        if rest.startswith("{") and not rest.endswith("}"):
            rest = rest[1:].strip()
        if rest and rest not in "{}":
            lines.append(rest)
    return lines


def kernels(ptx: str) -> list[Kernel]:
    text = re.sub(r"/\*.*?\*/", "", re.sub(r"//[^\n]*", "", ptx), flags=re.DOTALL)
    outside = text
    entries = []
    for match in re.finditer(r"\.entry\s+([\w$]+)\s*\((.*?)\)([^{]*)\{", text, re.DOTALL):
        depth, end = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        entries.append(Kernel(match[1], match[2], text[match.end() : end - 1]))
        outside = outside.replace(text[match.start() : end], "")
    if left := re.search(r"^\s*(?:\.(?:visible|extern|weak)\s+)*\.(func|global|const|shared)\b.*", outside, re.MULTILINE):
        raise Untranslatable(f"outside of a kernel: {left[0].strip()}")
    return entries


def translate(ptx: str) -> str:
    """C source. Raises Untranslatable with the line."""
    return '#include "ptx.h"\n' + "".join(kernel.c() for kernel in kernels(ptx.rstrip("\0")))


def main() -> int:
    source, library = Path(sys.argv[1]), Path(sys.argv[2])
    try:
        text = translate(source.read_text())
    except Untranslatable as error:
        print(f"the stand-in for CUDA cannot run this kernel: {error}", file=sys.stderr)
        return 1
    own = library.with_suffix(f".{os.getpid()}.so")
    argv = ["gcc", *FLAGS, f"-I{Path(__file__).parent}", "-o", str(own), "-x", "c", "-", "-lm"]
    code = subprocess.run(argv, input=text.encode(), check=False).returncode
    if code == 0:
        own.rename(library)
    return code


if __name__ == "__main__":
    sys.exit(main())
