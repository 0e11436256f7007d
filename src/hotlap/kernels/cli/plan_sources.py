"""What a word of `plan from` means: networks by name or file, a Hugging Face configuration, a user's module, a recorded trace."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hotlap.core.errors import InputError, nearest
from hotlap.core.record import Notice
from hotlap.core.show.words import counted
from hotlap.core.work.networks import compose, shape, sources, steps
from hotlap.core.work.networks.calls import Call
from hotlap.core.work.networks.compose import ComposedStep
from hotlap.core.work.networks.steps import Source

TRACED = ("forward", "train")  # phases of a module


class PlanSource(NamedTuple):
    """Steps, and what is not in them: reason → where."""

    steps: list[ComposedStep]
    left_out: dict[str, list[str]]
    names: list[str]
    taken_as: list[str]  # networks whose weights are stored in another type, in words
    remarks: list[Notice] = []  # how configurations were read, and what of them is left out


def collect(words: Sequence[str], choices: compose.Choices, given: Sequence[str] = (), as_type: str = "") -> PlanSource:
    """The steps of everything that was named. `given`: options of the choices, each of which must have a use; `as_type`: how
    configurations are read. Raises InputError: what is wrong with which word, or that no step can be."""
    networks: list[Source] = []
    modules: list[str] = []
    traces: list[Path] = []
    for word in dict.fromkeys(words):
        if word == "all":
            networks += [steps.find(name) for name in steps.names()]
        elif ":" in word and not sources.is_file(word):
            modules.append(word)
        elif (network := sources.read(word, as_type)) is not None:
            networks.append(network)
        else:
            traces.append(Path(word))
    if not networks:
        _check_used(given, modules)
    source = PlanSource([], {}, [], [], [])
    for path in traces:
        _add(source, _recorded(path))
    for word in modules:
        _add(source, _traced(word, choices.phases))
    if networks:
        every, left_out = compose.every_step(_distinct(networks), choices)
        names = list(dict.fromkeys(network.name for network in networks))
        stored = [] if set(choices.phases) == {"train"} else _taken_as(networks, choices.dtype)
        remarks = list({remark.text: remark for network in networks for remark in steps.remarks(network)}.values())
        _add(source, PlanSource(every, left_out, names, stored, remarks))
    return source


def _check_used(given: Sequence[str], modules: Sequence[str]) -> None:
    """A trace stays as it was recorded, a module runs on its factory's inputs: of the options only a module's phase means anything."""
    unused = [option for option in given if not (modules and option == "--phase")]
    if unused:
        how = "a module runs as its factory makes it and its inputs" if modules else "a trace is taken as it was recorded"
        raise InputError(f"{', '.join(unused)}: only networks are run as asked; {how}")


def _add(source: PlanSource, more: PlanSource) -> None:
    source.steps.extend(more.steps)
    source.names.extend(more.names)
    source.taken_as.extend(more.taken_as)
    source.remarks.extend(more.remarks)
    for reason, where in more.left_out.items():
        source.left_out.setdefault(reason, []).extend(where)


def _taken_as(networks: Sequence[Source], dtypes: Sequence[str]) -> list[str]:
    said = (network.taken_as(dtype) for network in networks if isinstance(network, shape.Network) for dtype in dtypes)
    return [one for one in dict.fromkeys(said) if one]


def _distinct(networks: Sequence[Source]) -> list[Source]:
    found: dict[str, Source] = {}
    for network in networks:
        if found.setdefault(network.name, network) != network:
            raise InputError(f"two networks are called '{network.name}': a configuration's has the name of its folder; rename one")
    return list(found.values())


def _no_json(path: Path) -> str:
    """Why a small JSON file that is no trace is no configuration either; "" for any other file."""
    if path.suffix != ".json" or path.stat().st_size > sources.PEEKED_BYTES:
        return ""
    try:
        json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        return f"'{path}' is no JSON: {error}"
    return f"'{path}' is neither a trace nor a configuration of Hugging Face, which has a 'model_type'"


def _traced(word: str, phases: Sequence[str]) -> PlanSource:
    """A module's operators on fake tensors; how it is run stands in its factory's inputs."""
    from hotlap.kernels import module

    wanted = [phase for phase in phases or TRACED if phase in TRACED]
    if not wanted:
        raise InputError(f"a module has no phase {', '.join(phases)}; {nearest(phases[0], TRACED)}")
    name = word.rpartition("/")[2]
    source = PlanSource([], {}, [name], [])
    for phase, traced in zip(wanted, module.traces(word, [phase == "train" for phase in wanted]), strict=True):
        if isinstance(traced, str):
            if phases:
                raise InputError(traced)
            source.left_out.setdefault(traced, []).append(f"{name} {phase}")
            continue
        calls = [
            Call(" ".join(filter(None, (one.place, one.operator))), "module", one.asked.workload, one.asked.params, one.times)
            for one in traced.calls
        ]
        source.steps.append(ComposedStep(f"{name} {phase}", calls))
        for operator, times in traced.unknown.items():
            source.left_out.setdefault("no workloads", []).append(f"{operator} ({counted(times, 'call')} in {name} {phase})")
    return source


def _recorded(path: Path) -> PlanSource:
    """A step of a trace, on average over its steps."""
    from hotlap.traces import recorded
    from hotlap.traces.study import Study
    from hotlap.traces.timeline import Timeline

    try:
        opened = Timeline.open(path)
    except InputError as error:
        raise InputError(_no_json(path) or str(error)) from None
    program = recorded.program(Study(opened))
    if not program.workloads:
        raise InputError(f"'{path}' has no operators with shapes; record it with record_shapes=True, or give a config.json of Hugging Face")
    name = f"{path.name} recorded"
    calls = [Call(one.operator, "trace", one.asked.workload, one.asked.params, one.calls) for one in program.workloads]
    missing = [f"{operator} ({seconds * 1e3:.3g} ms of {name})" for operator, seconds in program.unknown.items()]
    return PlanSource([ComposedStep(name, calls)], {"no workloads": missing} if missing else {}, [path.name], [])
