"""hotlap plan from NETWORK… | CONFIG.json | MODULE:FACTORY | TRACE"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hotlap.cli import terminal
from hotlap.core import plan as plans
from hotlap.core.errors import InputError
from hotlap.core.model import machines
from hotlap.core.model.networks import memory
from hotlap.core.model.networks.price import Prices, prices
from hotlap.core.model.spec import Spec
from hotlap.core.plan.axes import MOST
from hotlap.core.plan.read import LARGEST_BYTES
from hotlap.core.record import Case
from hotlap.core.work.networks import compose, layered, steps, walk
from hotlap.core.work.networks.calls import Setting
from hotlap.core.work.networks.shape import Network
from hotlap.core.work.networks.steps import Choice
from hotlap.kernels.cli import network_options, plan_sources
from hotlap.kernels.show import network_plan
from hotlap.kernels.show.network_plan import Listed

LARGE = 1e9  # parameters from which a language network is called large


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", nargs="*", help="of --list, 'all'; or config.json of Hugging Face, MODULE:FACTORY, a trace")
    parser.add_argument("--list", action="store_true", help="the networks, with parameters and operations beside what was published")
    how = parser.add_argument_group("how they are run", "several values with commas; 1k is 1024")
    how.add_argument("--phase", metavar="NAME", help="prefill, decode, forward, train (default: all that a network has)")
    for name, default, about in _COUNTS:
        how.add_argument(f"--{name}", metavar="N", help=f"{about} (default: {default})")
    how.add_argument("--dtype", metavar="NAME", help=f"of weights and products: {', '.join(steps.DTYPES)} (default: bf16)")
    how.add_argument("--micro-batch", metavar="N", help="training: sequences that pass together (default: 1 of a causal network, else all)")
    parser.add_argument("--as", dest="as_type", default="", metavar="TYPE", help="read config.json as this model_type, as in llama")
    terminal.machine(parser, "whose expected times are the weights")
    parser.add_argument("--top", metavar="SHARE", help="only the cases that make this share of every step's expected time, as 99%%")
    parser.add_argument("-o", "--out", metavar="FILE", help="write the plan there (default: print it)")


_COUNTS = (
    ("batch", "1", "sequences or images of a step, of each replica"),
    ("context", "as usual for the network", "tokens of a prompt, or in the cache"), ("tp", "1", "tensor-parallel GPUs"),
    ("pp", "1", "pipeline stages"), ("dp", "1", "replicas"), ("ep", "1", "GPUs that experts are spread over"),
)  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """The plan on standard output or in a file, a summary on standard error."""
    if args.list:
        listed = [_listed(name) for name in steps.names()]
        if args.json:
            terminal.answer(args.json, listed, "networks")
        else:
            print(network_plan.table(listed, terminal.width(), terminal.color()))
        return 0
    if not args.network:
        raise InputError("which network? as in: hotlap plan from llama-3-8b --batch 1,8; 'hotlap plan from --list' lists them")
    spec = machines.load(args.machine)
    machine = spec.slug
    share = None if args.top is None else network_options.share(args.top, "--top")
    source = plan_sources.collect(args.network, _choices(args), [option for option, _ in _given(args)], args.as_type)
    kept_prices: list[Prices] = []

    def price(cases: Sequence[Case]) -> Mapping[str, float]:
        kept_prices.append(prices(cases, machine))
        return kept_prices[-1].seconds

    names = source.names
    title = names[0] if len(names) == 1 else "networks"
    about = f"the kernels of {', '.join(names) if len(names) < 4 else f'{len(names)} networks'}"
    whole = compose.plan(source.steps, price, title, about, machine)
    plan = whole if share is None else compose.top(whole, share)
    if not plan.cases:
        why = "; ".join(f"{reason}: {', '.join(where)}" for reason, where in source.left_out.items())
        raise InputError(f"{', '.join(args.network)} has no kernel that a plan could have; left out: {why}")
    if len(plan.cases) > MOST:
        raise InputError(f"these are {len(plan.cases)} cases, and a plan has at most {MOST}; ask for fewer settings, or for --top 99%")
    too_large = _too_large(source.steps, spec)
    ways = {one.name: tp for one in source.steps if one.name in too_large and (tp := _tp_that_fits(one, spec))}
    said = network_plan.Notes(
        command=_command(args), networks=names, left_out=source.left_out, kept_share=share, too_large=too_large, taken_as=source.taken_as,
        remarks=source.remarks, holds_bytes=spec.memory_bytes, fits_with_tp=ways,
    )
    notes = network_plan.notes(said, whole, plan, kept_prices[-1].unknown)
    _write(args, plans.text(plan, network_plan.head(notes, plan)), {"plan": plan, "notes": notes})
    print(network_plan.summary(notes, plan, terminal.width(), sys.stderr.isatty() and terminal.color()), file=sys.stderr)
    if args.out:
        print(f"\nplan    {args.out}\nnext    hotlap run {shlex.quote(args.out)}", file=sys.stderr)
    return 0


def _too_large(composed: Sequence[compose.ComposedStep], spec: Spec) -> dict[str, float]:
    """Steps that the machine's memory does not hold, by the model's estimate: step → bytes that it needs."""
    needed = {one.name: sum(memory.known(*one.asked).values()) for one in composed if one.asked}
    return {step: size for step, size in needed.items() if spec.memory_bytes and size > spec.memory_bytes}


def _tp_that_fits(step: compose.ComposedStep, spec: Spec) -> int | None:
    """The fewest tensor-parallel GPUs, of 2, 4 and 8, whose memory holds a step; None where none do or the network is not cut so."""
    network, how = step.asked or (None, None)
    if not isinstance(network, Network) or not isinstance(how, Setting) or not spec.memory_bytes:
        return None
    for tp in (2, 4, 8):
        choice = Choice(how.phase, how.batch, how.context, tp, how.pp, how.dp, how.ep, how.dtype, how.micro_batch)
        try:
            steps.step(network, choice)
        except InputError:
            continue
        if tp > how.tp and sum(memory.known(*steps.asked(network, choice)).values()) <= spec.memory_bytes:
            return tp
    return None


def _write(args: argparse.Namespace, text: str, everything: object) -> None:
    if len(text.encode()) > LARGEST_BYTES:
        print("hotlap: the plan is larger than what 'run' reads; ask for fewer settings, or for --top 99%", file=sys.stderr)
    if args.out:
        terminal.write(Path(args.out), text)
    if args.json:
        terminal.answer(args.json, everything)
    elif not args.out:
        print(text, end="")


def _choices(args: argparse.Namespace) -> compose.Choices:
    micro = (0,) if args.micro_batch is None else network_options.values(args.micro_batch, "--micro-batch", steps.count)
    if len(micro) > 1:
        raise InputError("--micro-batch is one number")
    given = network_options.settings(args, [name for name, _, _ in _COUNTS])
    return compose.Choices(**given, micro_batch=micro[0])  # type: ignore[arg-type]


def _given(args: argparse.Namespace) -> list[tuple[str, str]]:
    """The options that say how networks are run, as they were given."""
    names = ("phase", *(name for name, _, _ in _COUNTS), "dtype", "micro_batch")
    return [(f"--{name.replace('_', '-')}", value) for name in names if (value := getattr(args, name)) is not None]


def _command(args: argparse.Namespace) -> str:
    """The command that makes this plan again."""
    given = [*_given(args), *([("--as", args.as_type)] if args.as_type else []), *([("--top", args.top)] if args.top is not None else [])]
    parts = [*args.network, *(part for pair in given for part in pair), "--machine", args.machine]
    return f"hotlap plan from {shlex.join(parts)}"


def _listed(name: str) -> Listed:
    network = steps.find(name)
    phase = next(one for one in ("prefill", "forward") if one in steps.phases(network))
    if isinstance(network, layered.Layered):
        walked = walk.walk(network, "layers", 1)
        counted, macs, domain = walked.parameters, walk.multiply_adds(walked.calls, network.uncounted), network.domain
        published: float | None = 2 * network.macs or None
    else:
        choice = Choice(phase, context=1) if phase == "prefill" else Choice(phase)
        counted, macs, published = network.counted, walk.multiply_adds(steps.step(network, choice)), None
        domain = "language" if network.counted < LARGE else "large language"
    return Listed(
        name=name, domain=domain, about=network.about, source=network.source, phases=list(steps.phases(network)),
        parameters=network.parameters, counted=counted, operations=2 * macs, published_operations=published,
    )  # fmt: skip
