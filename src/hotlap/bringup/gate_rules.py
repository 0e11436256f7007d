"""Rules of a gate: the package's, and users' own commands, which act only once their false alarms are known."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from hotlap.bringup.gate_record import ACCEPTANCE, GateRule
from hotlap.core import units
from hotlap.core.errors import InputError

VALID = {"about", "command", "takes", "false_alarms"}
EXAMPLE = """a rule is as [rules.dcgm] command = "dcgmi diag -r 1", takes = "10 s", false_alarms = 0.01"""


def builtin() -> dict[str, GateRule]:
    """By name, in their order."""
    given = tomllib.loads(resources.files("hotlap.bringup").joinpath("gate_rules.toml").read_text(encoding="utf-8"))["rules"]
    return {name: _rule(name, rule) for name, rule in given.items()}


def load(file: str) -> dict[str, GateRule]:
    """With those of a user's file, whose rules are commands. Raises InputError."""
    rules = builtin()
    if not file:
        return rules
    try:
        given = tomllib.loads(Path(file).read_text(encoding="utf-8"))["rules"]
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError) as error:
        raise InputError(f"--rules {file} cannot be read ({error}); {EXAMPLE}") from None
    if not isinstance(given, dict):
        raise InputError(f"--rules {file} has no tables of rules; {EXAMPLE}")
    for name, rule in given.items():
        if name in rules or name == ACCEPTANCE:
            raise InputError(f"{file}: there is a rule '{name}' already; give yours another name")
        if not isinstance(rule, dict) or not rule.get("command"):
            raise InputError(f"{file}, rule '{name}': it has no command; {EXAMPLE}")
        if wrong := sorted(set(rule) - VALID):
            raise InputError(f"{file}, rule '{name}': there is no key '{wrong[0]}'; valid: {', '.join(sorted(VALID))}")
        try:
            rules[name] = _rule(name, rule)
        except (msgspec.MsgspecError, ValueError) as error:
            raise InputError(f"{file}, rule '{name}': {error}; {EXAMPLE}") from None
        if not 0 < rules[name].false_alarms < 1:
            raise InputError(f"{file}, rule '{name}': false_alarms is a share between 0 and 1, not {rules[name].false_alarms}")
    return rules


def _rule(name: str, given: Mapping[str, Any]) -> GateRule:
    rest = {key: value for key, value in given.items() if key != "takes"}
    if isinstance(rest.get("command"), str):
        rest["command"] = shlex.split(rest["command"])
    return msgspec.convert({**rest, "name": name, "takes_s": units.parse(given.get("takes", "5 s"), "s")}, GateRule)
