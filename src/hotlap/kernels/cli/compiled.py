"""hotlap kernel compiled FILE…"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from msgspec.structs import replace

from hotlap.cli import terminal
from hotlap.core.errors import HotlapError, InputError
from hotlap.core.model import machines
from hotlap.kernels import advice, eager
from hotlap.kernels.binaries.base import Compiled
from hotlap.kernels.compiled.asking import CompileRequest, kernels
from hotlap.kernels.eager_round import EagerJob
from hotlap.kernels.own import describe
from hotlap.kernels.show import compiled as report
from hotlap.kernels.show import eager as eager_report


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", nargs="+", help=".cu .cl .ptx .cubin .hsaco .spv, or FILE.py:FUNCTION of Triton")
    parser.add_argument("--arch", default="", metavar="NAMES", help="to compile for, separated by commas: sm_90,sm_100 (default: sm_90)")
    parser.add_argument("--machine", default="", metavar="NAMES", help="the same by machines of the table: h200-sxm,b200")
    flags = "of the compiler; given twice, both are set beside each other ('' is none)"
    parser.add_argument("--flags", action="append", default=[], metavar="TEXT", help=flags)
    parser.add_argument("--include", action="append", default=[], metavar="DIR", help="where headers are")
    signature = "of a Triton function: 'x=*fp32:16, n=i32, BLOCK=1024, num_warps=4'"
    parser.add_argument("--signature", default="", metavar="TEXT", help=signature)
    parser.add_argument("--threads", type=int, metavar="N", help="of a block, where the kernel does not say (default: 256)")
    rounds = "fresh processes in which it is compiled; 6 give an interval (default: 1, against eager 6)"
    parser.add_argument("--rounds", type=int, metavar="N", help=rounds)
    parser.add_argument("--keep", metavar="DIR", help="keep cubin, PTX, SPIR-V and what else the compiler writes")
    eager = parser.add_argument_group(
        "torch.compile: hotlap kernel compiled MODULE:FACTORY --against eager", "FACTORY() returns (module, example inputs)"
    )
    eager.add_argument("--against", choices=["eager"], help="time the module compiled and not compiled, in turns")
    eager.add_argument("--target", metavar="SPEC", help="torch:cpu, torch:cuda … (default: the best that PyTorch has)")
    eager.add_argument("--backend", metavar="NAME", help="of torch.compile (default: inductor)")
    eager.add_argument("--backward", action="store_true", help="a step is forward and backward")


def run(args: argparse.Namespace) -> int:
    """Registers, spills, memory, occupancy and instructions of kernels, and what speaks against their code."""
    if args.against:
        return _against(args)
    stray = next((name for name in ("target", "backend", "backward") if getattr(args, name)), "")
    if stray:
        raise InputError(f"--{stray} is of a module that is compared with eager: --against eager")
    args.rounds = 1 if args.rounds is None else args.rounds
    if args.rounds < 1 or (args.threads is not None and not 1 <= args.threads <= 1024):
        raise InputError("--rounds is at least 1, and --threads from 1 to 1024")
    asked = CompileRequest(
        architectures=_architectures(args.arch, args.machine),
        flags=args.flags or [""],
        include=args.include,
        signature=args.signature,
        rounds=args.rounds,
        keep=Path(args.keep) if args.keep else None,
    )
    compiled_kernels: list[Compiled] = []
    problems: list[HotlapError] = []
    for source in args.source:
        try:
            compiled = list(kernels(source, asked))
            compiled_kernels += compiled if args.threads else _grouped(source, compiled)
        except HotlapError as error:
            problems.append(error)
    if not compiled_kernels and problems:
        raise problems[0]
    if not compiled_kernels:
        why = "CUDA: no __global__ function, or only templates that nothing instantiates"
        raise InputError(f"{', '.join(args.source)}: there is no kernel in it ({why})")
    studied = [advice.study(one, args.threads) for one in compiled_kernels]
    found = advice.findings(studied)
    if args.json:
        terminal.answer(args.json, {"kernels": studied, "findings": found, "failed": [str(one) for one in problems]})
    else:
        print(report.compiled(studied, found, terminal.width(), color=terminal.color()))
    for one in problems:
        print(f"hotlap: {one}", file=sys.stderr)
    return max((one.exit_code for one in problems), default=0)


def _grouped(source: str, several: list[Compiled]) -> list[Compiled]:
    """With the threads of a block that the file's heading launches its function with, where the code declares none."""
    path = Path(source)
    launched = describe.launched(path) if path.suffix in (".cu", ".cl") and path.is_file() else None
    if launched is None:
        return several
    function, group = launched
    return [replace(one, threads=group) if one.threads is None and one.kernel == function else one for one in several]


def _against(args: argparse.Namespace) -> int:
    rounds = 6 if args.rounds is None else args.rounds
    if len(args.source) != 1 or rounds < 1:
        raise InputError("--against eager takes one MODULE:FACTORY, and at least one round")
    job = EagerJob(factory=args.source[0], target=args.target or "torch", backend=args.backend or "inductor", backward=args.backward)
    found = eager.run(job, rounds, lambda text: print(text, file=sys.stderr))
    if args.json:
        terminal.answer(args.json, found)
    else:
        print(eager_report.against(found, terminal.width(), color=terminal.color()))
    return 0


def _architectures(names: str, machine: str) -> list[str]:
    parts = [one.strip() for one in names.split(",") if one.strip()]
    for slug in filter(None, (one.strip() for one in machine.split(","))):
        spec = machines.load(slug)
        if not spec.compile_target:
            raise InputError(f"the machine table does not say what {spec.slug} is compiled for; give --arch")
        parts.append(spec.compile_target)
    return list(dict.fromkeys(parts))
