"""Phoronix Test Suite's composite.xml: each trial is a process of its own."""

from __future__ import annotations

from xml.etree import ElementTree

from hotlap.core.errors import InputError
from hotlap.core.store.readers.source import Better, ReadCase, ReadRound, ReadRun, Source, moment, number
from hotlap.core.where import Cpu

NAME = "phoronix"
BRINGS = "each trial as a round (else the rounded value), unit, direction, machine; a run per system; empty results as not run"
ORIGIN = "Phoronix Test Suite 10.8.6, run here with a profile of our own: composite.xml, whole and of a run that was stopped"
BETTER: dict[str, Better] = {"HIB": "higher", "LIB": "lower"}


def detect(source: Source) -> bool:
    return b"<PhoronixTestSuite>" in source.data[:4096]


def read(source: Source) -> list[ReadRun]:
    root = _parse(source)
    systems = {_text(system, "Identifier"): system for system in root.findall("System")}
    cases: dict[str, list[ReadCase]] = {name: [] for name in systems}
    for place, result in enumerate(root.findall("Result"), 1):
        for entry in result.findall("Data/Entry"):
            name = _text(entry, "Identifier")
            cases.setdefault(name, []).append(_case(result, entry, f"{source.path}: result {place}, {name}"))
    return [_run(name, systems.get(name), kept, source) for name, kept in cases.items() if kept]


def _parse(source: Source) -> ElementTree.Element:
    """Without a document type, so that no entity is there to be resolved."""
    if "<!DOCTYPE" in source.decoded or "<!ENTITY" in source.decoded:
        raise InputError(f"{source.path}: XML with a document type or entities is not read")
    try:
        return ElementTree.fromstring(source.decoded)
    except ElementTree.ParseError as error:
        raise InputError(f"{source.path}:{error.position[0]}: not XML: {error}; is the file whole?") from None


def _run(name: str, system: ElementTree.Element | None, cases: list[ReadCase], source: Source) -> ReadRun:
    if system is None:
        return ReadRun(cases, source.modified_s, host=name)
    parts = dict(part.split(": ", 1) for part in f"{_text(system, 'Hardware')}, {_text(system, 'Software')}".split(", ") if ": " in part)
    stamp = _text(system, "TimeStamp")
    software = {kind: text for kind, text in parts.items() if kind in ("Compiler", "OpenCL", "OpenGL", "Vulkan", "Display Driver")}
    return ReadRun(
        cases, moment(stamp, f"{source.path}: TimeStamp") if stamp else source.modified_s, host=name, device=parts.get("Graphics", ""),
        os=parts.get("OS", ""), cpu=Cpu(name=parts.get("Processor", "")), software=software,
    )  # fmt: skip


def _case(result: ElementTree.Element, entry: ElementTree.Element, place: str) -> ReadCase:
    title, version, about = (_text(result, name) for name in ("Title", "AppVersion", "Description"))
    raw, value = _text(entry, "RawString"), _text(entry, "Value")
    trials = [number(text, f"{place}, value") for text in (raw or value).split(":") if text]
    if value and trials and not min(trials) * 0.99 - 0.01 <= number(value, f"{place}, Value") <= max(trials) * 1.01 + 0.01:
        raise InputError(f"{place}: the value {value} lies outside of its trials {raw}: they do not belong together")
    rounds = [ReadRound([trial]) for trial in trials] or [ReadRound([], "no trial gave a value")]
    better = BETTER.get(_text(result, "Proportion"), "")
    parameters = tuple(f"{name}={text}" for name, text in (("version", version), ("arguments", _text(result, "Arguments"))) if text)
    better = better or ("" if trials else "lower")  # the direction is missing where every trial failed
    return ReadCase(f"{title} {about}".strip(), _text(result, "Scale"), rounds, parameters, better, place)


def _text(element: ElementTree.Element, name: str) -> str:
    return (element.findtext(name) or "").strip()
