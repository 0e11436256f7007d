"""What a configuration means for a subject: variables, words of a command, files, the load of a client."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hotlap.core.errors import InputError, nearest
from hotlap.tuning import catalogue
from hotlap.tuning.catalogue import SwitchFacts, TuningSwitch
from hotlap.tuning.record import DropCode, DroppedSetting, TuningSetting
from hotlap.tuning.space import Configuration

PLACE = re.compile(r"\{([a-z][a-z0-9_]*)\}")
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
AS_FOUND = "as found"
CLIENT_ALONE = "the server is not started here: only the client's load can be tried"
Refusal = tuple[DropCode, str]


class Applied(NamedTuple):
    """`arguments`: of placeholders; `files`: path → content."""

    environment: Mapping[str, str]
    arguments: Mapping[str, str]
    prefix: Sequence[str]
    files: Mapping[str, str]
    load: Mapping[str, str]


class ChosenSwitches(NamedTuple):
    """What is searched: `values` of each switch, the one that stands first; `refused`: what is not, and why."""

    switches: Mapping[str, TuningSwitch]
    values: Mapping[str, list[str]]
    refused: Sequence[DroppedSetting]


def applied(switches: Mapping[str, TuningSwitch], standing: Mapping[str, str], configuration: Configuration) -> Applied:
    """`standing`: of each placeholder as found."""
    environment: dict[str, str] = {}
    arguments = {name: standing[name] for name, switch in switches.items() if switch.argument}
    prefix: list[str] = []
    contents: dict[str, str] = {}
    load: dict[str, str] = {}
    for name, value in configuration:
        switch = switches[name]
        environment |= {variable: text.replace("{value}", value) for variable, text in switch.variables.items()}
        prefix += [word.replace("{value}", value) for word in switch.prefix]
        if switch.argument:
            arguments[name] = value
        if switch.path:
            contents[switch.path] = switch.content.replace("{value}", value)
        if switch.load:
            key, _, text = switch.load.partition(" = ")
            load[key] = text.replace("{value}", value)
    return Applied(environment, arguments, prefix, contents, load)


def filled(words: Sequence[str], arguments: Mapping[str, str]) -> list[str]:
    """A command with its placeholders filled; a word that is nothing but an empty one is left out."""
    done = [PLACE.sub(lambda match: arguments.get(match[1], match[0]), word) for word in words]
    return [new for new, old in zip(done, words, strict=True) if new or not old]


def places_of(words: Sequence[str]) -> list[str]:
    """The placeholders of a command, each once."""
    return list(dict.fromkeys(name for word in words for name in PLACE.findall(word)))


def chosen(asked: str, subject: str, words: Sequence[str], facts: SwitchFacts, checked: bool) -> ChosenSwitches:
    """The switches that are searched. `asked`: NAME or NAME=VALUE,VALUE with `;` between, or a file of one's own; "": all that apply here,
    but those that change the machine for other programs too.
    `words`: of the command, whose placeholders count. `checked`: results are looked at. Raises InputError."""
    places = places_of(words)
    every = dict(catalogue.switches())
    named: dict[str, list[str]] = {}
    for part in (one.strip() for one in asked.split(";") if one.strip()):
        if part.endswith(".toml"):
            own = catalogue.file(part)
            every |= own
            named |= {name: [] for name in own}
            continue
        name, sign, text = part.partition("=")
        given = [value.strip() for value in text.split(",")] if sign else []
        named[name.strip()] = given
    for name in [*named, *(one for one in places if not asked)]:
        if name not in every:
            every[name] = _own(name, named.get(name, []), places, every)
    usual = [name for name, switch in every.items() if subject in switch.subjects and (not switch.argument or name in places)]
    wanted = named or {name: [] for name in usual}
    refused: list[DroppedSetting] = []
    switches: dict[str, TuningSwitch] = {}
    values: dict[str, list[str]] = {}
    for name, given in wanted.items():
        switch = every[name]
        if switch.path and not named:
            why: Refusal | None = ("not_named", f"it changes the whole machine: --switches '{name}' tries it")
        else:
            why = refusal(name, switch, facts, TriedOn(subject, places, checked))
        if why:
            refused.append(DroppedSetting(settings=[TuningSetting(name, "")], code=why[0], reason=why[1]))
            continue
        options = _values(switch, given, facts)
        if len(options) > 1:
            switches[name], values[name] = switch, options
    return ChosenSwitches(switches, values, refused)


def _own(name: str, given: Sequence[str], places: Sequence[str], every: Mapping[str, TuningSwitch]) -> TuningSwitch:
    """A switch that is not in the catalogue: a placeholder of the command, or a variable."""
    if name in places:
        if len(given) < 2:
            raise InputError(f"the command's {{{name}}} is no known switch: give its values, as found first: --switches '{name}=1,2,4'")
        return TuningSwitch(about="a placeholder of the command", argument=True, values=list(given[1:]), standing=given[0])
    if VARIABLE.fullmatch(name) and given:
        return TuningSwitch(about="a variable of the environment", variables={name: "{value}"}, values=list(given))
    known = [*every, *places]
    raise InputError(f"there is no switch '{name}'; {nearest(name, known)}; a variable is of capitals, with values: OMP_DYNAMIC=true")


class TriedOn(NamedTuple):
    """What switches are tried on: `places`: placeholders of its command; None: no command is known. `checked`: results are looked at.
    `client`: of a server that is not started here."""

    subject: str
    places: Sequence[str] | None
    checked: bool
    client: bool = False


def refusal(name: str, switch: TuningSwitch, facts: SwitchFacts, on: TriedOn) -> Refusal | None:
    """Why a switch cannot be tried: code and reason."""
    if reason := catalogue.lacking(switch, facts, on.subject):
        return "not_applicable", reason
    if on.client and not switch.load:
        return "not_applicable", CLIENT_ALONE
    if switch.verb:
        return "not_applicable", f"{switch.verb} does it"
    if switch.argument and on.places is not None and name not in on.places:
        return "not_applicable", f"the command has no {{{name}}}: write it where its value stands"
    if switch.path and not os.access(switch.path if os.path.exists(switch.path) else os.path.dirname(switch.path) or ".", os.W_OK):
        return "needs_root", f"{switch.path} cannot be written: run as root, or leave it"
    if switch.changes == "results" and not on.checked:
        return "unchecked", "it changes results, and nothing says whether they are as good: give --result, a number of the program's output"
    return None


def _values(switch: TuningSwitch, given: Sequence[str], facts: SwitchFacts) -> list[str]:
    """What stands first, then what is tried, each once. Given ones are tried; of a placeholder the first of them stands."""
    if switch.argument:
        options = list(given) or [switch.standing, *catalogue.values(switch, facts)]
        return list(dict.fromkeys(options))
    tried = [value for value in dict.fromkeys(given or catalogue.values(switch, facts)) if not _stands(switch, value)]
    return [AS_FOUND, *tried]


def _stands(switch: TuningSwitch, value: str) -> bool:
    """Whether the environment already is so."""
    wanted = {name: text.replace("{value}", value) for name, text in switch.variables.items()}
    return bool(wanted) and all(os.environ.get(name) == text for name, text in wanted.items())
