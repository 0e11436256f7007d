"""hotlap predict WORKLOAD k=v … --machine NAME"""

from __future__ import annotations

import argparse
import sys
import textwrap
from typing import Any

from hotlap.cli import terminal
from hotlap.core import plan as plans
from hotlap.core import work
from hotlap.core.errors import InputError
from hotlap.core.model import kept
from hotlap.core.model.networks import predict as networks
from hotlap.core.model.predict import predict
from hotlap.core.show import listing, network
from hotlap.core.work.base import Workload
from hotlap.core.work.networks import steps
from hotlap.core.work.networks.steps import DTYPES, PHASES


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("workload", nargs="?", help="its name, out of those below")
    parser.add_argument("parameter", nargs="*", metavar="NAME=VALUE", help="as in a plan: size='1 GiB' dtype=bf16")
    terminal.machine(parser, "of the machine table: 'hotlap model machines' lists them")
    parser.add_argument("--implementation", default="", help="the library's kernel, as vllm/DeepGemmFp8BlockScaledMMKernel")
    parser.add_argument("--calibration", default="", metavar="NAME", help="of 'hotlap model calibrate --list' (default: the machine's own)")
    parser.add_argument("--spec-only", action="store_true", help="by published figures alone, whatever was calibrated")
    net = parser.add_argument_group("a network: hotlap predict net NAME", "how a step of it is run")
    net.add_argument("--phase", choices=PHASES, help="prefill, decode, forward or train (default: decode, else forward)")
    for name, default, about in _SETTING:
        net.add_argument(f"--{name}", metavar="N", help=f"{about} (default: {default or 'as usual for the network'})")
    net.add_argument("--dtype", choices=DTYPES, help="of weights and products; mxfp4: of experts' weights (default: bf16)")
    net.add_argument("--as", dest="as_type", metavar="TYPE", help="read a Hugging Face configuration as this model_type")
    net.add_argument("--kv-dtype", choices=("bf16", "fp8"), help="of the cache of keys and values (default: bf16)")
    net.add_argument("--recompute", action="store_true", help="training: forward again in the backward pass")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _epilog()


def run(args: argparse.Namespace) -> int:
    """Bound, expected time with its interval, the rates they mean, what sets the limit, and the source of each term."""
    if not args.workload:
        raise InputError(f"which workload? valid: {', '.join(_predictable())}; as in: hotlap predict stream --machine h200-sxm")
    if args.workload == "net":
        return _network(args)
    if args.workload not in work.WORKLOADS and (args.workload in steps.names() or args.workload.endswith((".json", ".toml"))):
        raise InputError(f"'{args.workload}' is a network; its step: hotlap predict net {args.workload} --machine {args.machine}")
    spec = work.find(args.workload)
    stray = [name for name in (*_NETWORK, "as_type") if getattr(args, name) not in (None, False)]
    if stray:
        option, name = stray[0].removesuffix("_type").replace("_", "-"), args.workload
        raise InputError(f"--{option} is of a network's step (predict net); a parameter of {name} is given as NAME=VALUE: dtype=bf16")
    _machine_apart(args)
    given = terminal.pairs(args.parameter, "a parameter")
    case = plans.case(args.workload, given)
    known = kept.chosen(args.machine, args.calibration, args.spec_only, kept.place())
    limit = predict(args.workload, args.machine, args.implementation, known, **dict[str, Any](case.params))
    if not given and (usual := ", ".join(f"{one.name}={case.params[one.name]}" for one in spec.params if one.name in case.params)):
        own = f"hotlap predict {spec.name} {_example(spec)} (hotlap schema workloads {spec.name} says what each is)"
        print(f"hotlap: no parameters are given, so these are taken: {usual}; give your own, as in {own}", file=sys.stderr)
    if args.json:
        terminal.answer(args.json, {"case": case, "machine": args.machine, "unit": spec.unit, "limit": limit})
    else:
        print(listing.prediction(case, args.machine, limit, terminal.width()))
    return 0


def _example(spec: Workload) -> str:
    """A parameter as it is given: a number where there is one."""
    one = next((one for one in spec.params if one.kind == "int"), spec.params[0])
    return f"{one.name}={one.default}"


_SETTING = (
    ("batch", 1, "sequences of a step, of each replica"),
    ("context", None, "tokens of a prompt, or in the cache, as 8k"), ("tp", 1, "tensor-parallel GPUs"),
    ("pp", 1, "pipeline stages"), ("dp", 1, "replicas"), ("ep", 1, "GPUs that experts are spread over"),
    ("micro-batch", 1, "training: sequences that pass a stage together"),
)  # fmt: skip
_NETWORK = {
    "phase": None, **{name.replace("-", "_"): default for name, default, _ in _SETTING}, "dtype": "bf16", "kv_dtype": "bf16",
    "recompute": False,
}  # fmt: skip


def _machine_apart(args: argparse.Namespace) -> None:
    """Raises InputError for `machine=NAME`, which is no parameter of a case."""
    for text in args.parameter:
        name, _, value = text.partition("=")
        if name == "machine":
            raise InputError(f"{text}: a machine is no parameter", f"give --machine {value or 'NAME'}")


def _network(args: argparse.Namespace) -> int:
    """A step of a network."""
    if len(args.parameter) != 1:
        valid = f"a TOML file, a config.json of Hugging Face, or {', '.join(steps.names())}"
        raise InputError(f"which network? one name, as in: hotlap predict net llama-3-70b; valid: {valid}")
    _machine_apart(args)
    given = {name: default if getattr(args, name) is None else getattr(args, name) for name, default in _NETWORK.items()}
    for name, _, _ in _SETTING:
        if (text := getattr(args, name.replace("-", "_"))) is not None:
            given[name.replace("-", "_")] = steps.count(text, f"--{name}", several=False)
    if given["phase"] != "train" and (args.recompute or args.micro_batch is not None):
        raise InputError(f"--{'recompute' if args.recompute else 'micro-batch'} is of training: --phase train")
    known = kept.chosen(args.machine, args.calibration, args.spec_only, kept.place())
    found = networks.predict(args.parameter[0], args.machine, known, args.as_type or "", **given)
    if args.json:
        terminal.answer(args.json, found, "step")
    else:
        print(network.step(found, terminal.width(), color=terminal.color()))
    return 0


def _predictable() -> list[str]:
    """Nothing is known of what a program or a callable does."""
    return [name for name, one in work.WORKLOADS.items() if one.counted]


def _epilog() -> str:
    """The workloads by name."""
    names = textwrap.fill(", ".join(_predictable()), 80, initial_indent="  ", subsequent_indent="  ")
    return f"workloads (hotlap schema workloads NAME: the parameters of one):\n{names}"
