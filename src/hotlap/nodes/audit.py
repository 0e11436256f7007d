"""Facts against rules: pass, finding, not applicable, or not known and why. Rules are TOML; a user's file overrides by name."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import msgspec

from hotlap.core.errors import InputError, nearest
from hotlap.core.record import Finding, Record
from hotlap.nodes import expression
from hotlap.nodes.expression import Scope, Unknown
from hotlap.nodes.facts import Facts, members
from hotlap.nodes.growth import Earlier

PROFILES = {"bench": "numbers that can be compared", "training": "long jobs on many GPUs", "inference": "serving, where latency counts"}
SEVERITIES = ("info", "warning", "error")
NEEDED = ("title", "expect", "should", "because", "effect", "fix", "source")
OPTIONAL = ("each", "when", "needs", "severity", "profiles", "growth")
GROWING = ("expect", "should", "severity", "because", "source")  # what [rule.NAME.growth] puts in their place
NO_SOURCE = "common practice; no source found"  # how the source of such a rule begins
State = Literal["pass", "finding", "not applicable", "not known"]


class AuditRule(Record, frozen=True, kw_only=True):
    """One rule; expressions as they are written."""

    name: str
    title: str
    expect: str
    should: str  # what the setting should be, in words
    because: str
    effect: str  # its size and where that is published, or "size not published"
    fix: str  # the command that fixes it; {gpu.address} stands for a fact
    source: str
    each: str = ""  # a family: the rule is asked of every member
    when: str = "true"
    needs: str = "true"  # where this is false, nothing can be determined
    severity: Literal["info", "warning", "error"] = "warning"
    profiles: list[str] = msgspec.field(default_factory=lambda: list(PROFILES))
    growth: dict[str, str] = {}  # what takes their place where an earlier reading is given: expect, should, severity, because, source
    place: str = ""  # the file it stands in


class AuditOutcome(Record, frozen=True, kw_only=True):
    """What came of one rule for one member."""

    rule: str
    at: str = ""  # the member, as in gpu[0]
    state: State
    reason: str = ""  # why not known or not applicable
    seen: dict[str, Any] = {}  # the facts it was decided by
    finding: Finding | None = None


def builtin() -> dict[str, AuditRule]:
    """The package's own rules by name."""
    found: dict[str, AuditRule] = {}
    for file in sorted(resources.files("hotlap.nodes").joinpath("rules").iterdir(), key=lambda one: one.name):
        if file.name.endswith(".toml"):
            found |= read(file.read_text(encoding="utf-8"), file.name)
    return found


def load(files: Iterable[str]) -> dict[str, AuditRule]:
    """The package's rules, overridden by name by those of files. Raises InputError before anything is audited."""
    rules = builtin()
    for name in files:
        try:
            rules |= read(Path(name).read_text(encoding="utf-8"), name)
        except OSError as error:
            raise InputError(f"the rules '{name}' cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InputError(f"the rules '{name}' are not text in UTF-8") from None
    return rules


def sources(rules: Mapping[str, AuditRule]) -> dict[str, int]:
    """How many rules name a published source, how many one without their threshold, and how many rest on common practice alone."""
    alone = sum(rule.source.startswith(NO_SOURCE) for rule in rules.values())
    partly = sum(NO_SOURCE in rule.source for rule in rules.values()) - alone
    return {"published": len(rules) - partly - alone, "in part": partly, "common practice": alone}


def read(text: str, where: str) -> dict[str, AuditRule]:
    """Rules of one file. Raises InputError with file, rule, key and what is valid."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where}: not TOML: {error}") from None
    tables = document.get("rule")
    if not isinstance(tables, dict) or not tables or set(document) - {"rule", "schema"}:
        raise InputError(f"{where}: a file of rules holds tables [rule.NAME], each with {', '.join(NEEDED)}")
    return {name: _rule(name, table, where) for name, table in tables.items()}


def _rule(name: str, table: Any, where: str) -> AuditRule:
    place = f"{where}: rule {name}"
    if not isinstance(table, dict):
        raise InputError(f"{place}: not a table; write [rule.{name}]")
    _texts(table, NEEDED + OPTIONAL, place)
    if missing := [key for key in NEEDED if key not in table]:
        raise InputError(f"{place}: '{missing[0]}' is missing; a rule needs {', '.join(NEEDED)}")
    if (severity := table.get("severity", "warning")) not in SEVERITIES:
        raise InputError(f"{place}: there is no severity '{severity}'; {nearest(severity, SEVERITIES)}")
    profiles = table.get("profiles", list(PROFILES))
    if not isinstance(profiles, list) or not profiles or any(one not in PROFILES for one in profiles):
        raise InputError(f"{place}: 'profiles' is a list of {', '.join(PROFILES)}, not {profiles!r}")
    if not re.fullmatch(r"[a-z_]*", family := table.get("each", "")):
        raise InputError(f"{place}: each: '{family}' is no family; write the word before the brackets, as in gpu, net, ib, nic, pci, node")
    for key in ("expect", "when", "needs"):
        _parsed(table.get(key, "true"), f"{place}: {key}")
    _growth(table.get("growth", {}), f"{place}: growth")
    return AuditRule(name=name, place=where, **table)


def _texts(table: Mapping[str, Any], valid: Sequence[str], place: str) -> None:
    """Keys that there are, each with a text; two have a form of their own."""
    for key, value in table.items():
        if key not in valid:
            raise InputError(f"{place}: there is no key '{key}'; {nearest(key, valid)}")
        if key not in ("profiles", "growth") and (not isinstance(value, str) or not value.strip()):
            raise InputError(f"{place}: '{key}' is a text that is not empty, not {value!r}")


def _growth(table: Any, place: str) -> None:
    if not isinstance(table, dict) or (table and "expect" not in table):
        raise InputError(f"{place}: a table with 'expect' and, where they differ, {', '.join(GROWING[1:])}")
    _texts(table, GROWING, place)
    if (severity := table.get("severity", "warning")) not in SEVERITIES:
        raise InputError(f"{place}: there is no severity '{severity}'; {nearest(severity, SEVERITIES)}")
    if table and not expression.grows(_parsed(table["expect"], f"{place}: expect")):
        raise InputError(f"{place}: expect: it asks for no growth; write growth(NAME) or per_hour(NAME)")


def _parsed(text: str, place: str) -> ast.expr:
    try:
        return expression.parse(text)
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def growing(rules: Mapping[str, AuditRule]) -> dict[str, AuditRule]:
    """The rules as they are where an earlier reading is given: counters by their growth, not by their value."""
    return {name: msgspec.structs.replace(rule, **rule.growth) for name, rule in rules.items()}


def audit(facts: Facts, rules: Mapping[str, AuditRule], profile: str, earlier: Earlier | None = None) -> list[AuditOutcome]:
    """Every rule of a profile, in their order, for every member that it is about; `earlier` wants the rules of `growing`."""
    if profile not in PROFILES:
        raise InputError(f"there is no profile '{profile}'; {nearest(profile, PROFILES)}")
    outcomes = list[AuditOutcome]()
    for rule in rules.values():
        if profile not in rule.profiles:
            continue
        keys = members(facts.facts, rule.each) if rule.each else [""]
        if not keys:
            outcomes.append(AuditOutcome(rule=rule.name, state="not applicable", reason=f"no {rule.each} here"))
        outcomes += [_one(facts, rule, key, earlier) for key in keys]
    return outcomes


def _one(facts: Facts, rule: AuditRule, key: str, earlier: Earlier | None) -> AuditOutcome:
    at = f"{rule.each}[{key}]" if rule.each else ""
    expect = expression.parse(rule.expect)
    if earlier is None and expression.grows(expect):
        return AuditOutcome(rule=rule.name, at=at, state="not applicable", reason="only where an earlier reading is given: --since")
    when = expression.evaluate(expression.parse(rule.when), Scope(facts.facts, rule.each, key))
    if isinstance(when, Unknown):
        return AuditOutcome(rule=rule.name, at=at, state="not known", reason=when.why)
    if not when:
        return AuditOutcome(rule=rule.name, at=at, state="not applicable", reason=f"only where {rule.when}")
    needs = expression.evaluate(expression.parse(rule.needs), Scope(facts.facts, rule.each, key))
    if isinstance(needs, Unknown) or not needs:
        return AuditOutcome(
            rule=rule.name,
            at=at,
            state="not known",
            reason=needs.why if isinstance(needs, Unknown) else f"only known where {rule.needs}",
        )
    scope = Scope(facts.facts, rule.each, key, earlier=earlier)
    answer = expression.evaluate(expect, scope)
    seen = {name: fact.value if fact and fact.status == "ok" else None for name, fact in scope.used.items()}
    if isinstance(answer, Unknown):
        return AuditOutcome(rule=rule.name, at=at, state="not known", reason=answer.why, seen=seen)
    if answer:
        return AuditOutcome(rule=rule.name, at=at, state="pass", seen=seen)
    shown = [f"{name} is {_text(fact.value) if fact and fact.status == 'ok' else 'not set'}" for name, fact in scope.used.items()]
    detail = f"{'; '.join(shown)}. Should be: {rule.should}. {rule.because} Effect: {rule.effect} Source: {rule.source}"
    action = _filled(rule.fix, scope)
    finding = Finding(title=rule.title, detail=detail, severity=rule.severity, action=action)
    return AuditOutcome(rule=rule.name, at=at, state="finding", seen=seen, finding=finding)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "empty"
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _filled(text: str, scope: Scope) -> str:
    """{gpu.address} and {key} in a command, from the facts; what is not known here is named as such."""

    def fill(match: re.Match[str]) -> str:
        if match[1] == "key":
            return scope.key
        fact = scope.facts.get(scope.names(match[1])[0])
        return _text(fact.value) if fact and fact.status == "ok" else f"<{match[1]}: not known here>"

    return re.sub(r"{([a-z_]+(?:\.[a-z_.]+)?)}", fill, text)


def reached(outcomes: Sequence[AuditOutcome], fail_on: str) -> int:
    """Exit code: 1 where a finding is as severe as `fail_on`, 3 where no rule could be decided, else 0."""
    least = SEVERITIES.index(fail_on)
    if any(one.finding and SEVERITIES.index(one.finding.severity) >= least for one in outcomes):
        return 1
    return 0 if any(one.state in ("pass", "finding") for one in outcomes) else 3
