"""What a word of `plan from` means: networks by name or file, a Hugging Face configuration, a user's module, a recorded trace."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hotlap.core.errors import InputError, nearest
from hotlap.core.record import Notice
from hotlap.core.show.words import counted
from hotlap.core.work.networks import compose, config, layered, shape, steps, walk
from hotlap.core.work.networks.calls import Call
from hotlap.core.work.networks.compose import ComposedStep
from hotlap.core.work.networks.steps import Source

NEAR = 0.1  # of a network's parameters: norms and biases are not counted in plain transformers, which is much only of tiny ones
TRACED = ("forward", "train")  # phases of a module
PEEKED_BYTES = 2**22  # a file of JSON up to here is looked into for a configuration; traces are mostly larger


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
        elif _is_file(word):
            path = Path(word)
            if path.suffix == ".toml":
                networks.append(_written(path))
            elif path.is_dir() or _is_config(path):
                networks.append(config.read(path, as_type))
            else:
                traces.append(path)
        elif ":" in word:
            modules.append(word)
        else:
            networks.append(steps.find(word))
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
        remarks = list({remark.text: remark for network in networks for remark in network.remarks}.values())
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


def _is_file(word: str) -> bool:
    """A path that there is, or one that is written as a file's: a missing one is reported as a file."""
    path = Path(word)
    return path.exists() or path.suffix in (".json", ".toml")


def _written(path: Path) -> Source:
    """A user's own network, as those of the table are written: by its layers, or as a stack of transformer layers."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise InputError(f"there is no file '{path}'; give a network's TOML file, or a name of 'hotlap plan from --list'") from None
    except (OSError, ValueError) as error:
        raise InputError(f"'{path}' cannot be read as text: {error}") from None
    given = layered.parsed(text, path.stem)
    if "case" in given:
        raise InputError(f"'{path}' is a plan already: 'hotlap run' measures it")
    source: Source = (
        layered.from_document(given, path.stem) if isinstance(given.get("layers"), list) else shape.from_document(given, path.stem)
    )
    counted = source.counted if isinstance(source, shape.Network) else walk.walk(source, "layers", 1).parameters
    if abs(counted - source.parameters) > NEAR * source.parameters:
        said = f"its layers have {counted:,} parameters, and 'parameters' is {source.parameters:,.0f}"
        raise InputError(f"'{path}': {said}; mend the one that is wrong")
    return source


def _is_config(path: Path) -> bool:
    """One that is missing or no JSON counts as a configuration, too, if it is named so: reading it says what is wrong."""
    if path.name == "config.json" or not path.exists():
        return True
    try:
        if path.suffix != ".json" or path.stat().st_size > PEEKED_BYTES:
            return False
        return config.is_config(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return False


def _no_json(path: Path) -> str:
    """Why a small JSON file that is no trace is no configuration either; "" for any other file."""
    if path.suffix != ".json" or path.stat().st_size > PEEKED_BYTES:
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
