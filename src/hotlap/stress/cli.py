"""hotlap stress [PROFILE]"""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import replace as replaced
from pathlib import Path
from typing import TextIO

from msgspec.structs import replace

from hotlap.cli import terminal
from hotlap.core import stand_in, units
from hotlap.core.analysis import rows
from hotlap.core.errors import InputError
from hotlap.core.measure.targets.base import SystemClock
from hotlap.core.record import Device, Stop
from hotlap.core.show import kinds, layout, report
from hotlap.core.store import baselines, paths, select
from hotlap.core.store import bundle as bundles
from hotlap.core.store import labels as labelled
from hotlap.stress import record as stress
from hotlap.stress import session
from hotlap.stress import show as shown
from hotlap.stress import verdict as judging
from hotlap.stress.record import GoodRun, Happened, Line, Mismatch, Profile, Tick
from hotlap.stress.verdict import StressRun

EXIT_CODES = {"pass": 0, "fail": 1}
LOG_S, DRAW_S, KEPT = 10.0, 0.5, 600


def add(parser: argparse.ArgumentParser) -> None:
    parser._negative_number_matcher = re.compile(r"^-\d")  # '-3s' is a wrong time, not an unknown option
    names = ", ".join(stress.builtin())
    parser.add_argument("profile", nargs="?", help=f"{names}, or a TOML file (default: quick)")
    parser.add_argument("--for", dest="seconds", metavar="TIME", help="how long, as in '12 h' (default: the profile's)")
    parser.add_argument("--target", default="", help="as in hotlap run")
    parser.add_argument("--device", default="", metavar="INDEX|UUID|all", help="as in hotlap run; several run at once, a process each")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with the run")
    parser.add_argument("--power", metavar="POWER", help="hold this by duty cycle, as in '500 W'")
    parser.add_argument("--temperature", metavar="TEMPERATURE", help="hold this by duty cycle, as in '75 C'")
    parser.add_argument("--max-power", metavar="POWER", help="stop there")
    parser.add_argument(
        "--max-temperature", metavar="TEMPERATURE", help="stop there; 2 °C below the device's own slowdown it stops unasked"
    )
    parser.add_argument("--readings", metavar="RATE", help="of sensors, as in '10 Hz' (default)")
    parser.add_argument("--hung", metavar="TIME", help="silence after which a device counts as hung (default: 60 s)")
    parser.add_argument(
        "--allow", action="append", default=[], metavar="NAME=VALUE",
        help=f"a violation budget, as in throttle=5%% or ecc_corrected=10; others are {', '.join(stress.ALLOWED)}",
    )  # fmt: skip
    parser.add_argument("--catalogue", metavar="FILE", help="codes of your own: adds to Hotlap's and overrides them")
    parser.add_argument("--resume", metavar="RUN", help="go on with a stress run that was killed or interrupted")
    parser.add_argument("--judge", metavar="RUN", help="measure nothing: the verdict of a stress run that is there")
    parser.add_argument("--against", metavar="RUN", help="a stress run that is known to be good: slower than that by 5 %% fails")
    parser.add_argument("--out", metavar="FILE", help="the report as an HTML page")


def run(args: argparse.Namespace) -> int:
    """Loads, checks, judges: exit code 0 pass, 1 fail, 3 neither could be said, 130 interrupted."""
    _agree(args)
    if args.out:
        _writable(Path(args.out))
    own = Path(args.catalogue) if args.catalogue else None
    judging.catalogue(own)  # a file with an error is refused before hours of load
    allowed = {name: stress.allowed(name, text, "--allow") for name, text in terminal.pairs(args.allow, "a budget").items()}
    home = paths.home()
    good = _judged(_against(args.against), own) if args.against else None
    reference = judging.good_run(good.verdict, good.bundle.run) if good else None
    if args.judge:
        path = _one(args.judge)
    else:
        view = View(sys.stderr)
        if args.resume:
            path = session.resume(_one(args.resume), view, reference)
        else:
            profile = _profile(args)
            profile = replace(profile, allowed={**profile.allowed, **allowed})
            options = replaced(_options(args, home), reference=reference)
            view.begin(profile)
            path = session.run(profile, options, view)
        view.end()
    return _show(path, args, (own, allowed), good)


def _options(args: argparse.Namespace, home: Path) -> session.StressOptions:
    labels = labelled.check(dict(terminal.pairs(args.label, "a label")))
    return session.StressOptions(args.target, args.device, tuple(labels.items()), home, _rate(args.readings), _time(args.hung, 60.0))


MEASURING = ("profile", "seconds", "target", "device", "label", "power", "temperature", "max_power", "max_temperature", "readings", "hung")


def _agree(args: argparse.Namespace) -> None:
    """Raises InputError where options are given that a run which is there, or one that goes on, would have to ignore."""
    other = "judge" if args.judge else "resume" if args.resume else ""
    given = [name for name in MEASURING if getattr(args, name)]
    if args.judge and args.resume:
        raise InputError("--judge reads a run that is there, --resume goes on with one: give one of them")
    if other and given:
        names = ", ".join("PROFILE" if one == "profile" else "--for" if one == "seconds" else f"--{one.replace('_', '-')}" for one in given)
        why = "it measures nothing" if other == "judge" else "it goes on as the run began"
        raise InputError(f"--{other} does not go with {names}: {why}; leave {'them' if len(given) > 1 else 'it'} out")


def _writable(path: Path) -> None:
    """Raises InputError before hours of load, not after them, where a report could not be written."""
    folder = path.parent
    if path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        refused = "cannot be written" if folder.is_dir() else f"cannot be written: there is no folder '{folder}'"
        what = "is a folder" if path.is_dir() else refused
        raise InputError(f"--out: '{path}' {what}; name a file in a folder that is there")


def _against(selector: str) -> Path:
    """A run; a baseline by its name is refused with what to do instead."""
    name = selector.removeprefix("baseline:")
    if selector.startswith("baseline") or name in baselines.names(paths.home()):
        raise InputError(
            f"'{selector}' is a baseline, which knows the cases of plans; a stress run is compared with a stress run: "
            "begin the good one with --label good=yes, then give --against good=yes"
        )
    return _one(selector)


def _one(selector: str) -> Path:
    found = select.entries([selector], paths.home())
    if len(found) != 1:
        raise InputError(f"'{selector}' names {len(found)} runs; give one")
    return found[0].path


def _time(text: str | None, default: float) -> float:
    value = units.parse(text, "s") if text else default
    if not value > 0:
        raise InputError(f"a time is above 0, not {text}")
    return value


def _rate(text: str | None) -> float:
    value = units.parse(text, "Hz") if text else 10.0
    if not 0.01 <= value <= 1000:
        raise InputError(f"--readings is from 0.01 to 1000 Hz, not {text}")
    return value


def _profile(args: argparse.Namespace) -> Profile:
    profile = stress.load(args.profile or "quick")
    if args.power and args.temperature:
        raise InputError("--power and --temperature: one of them can be held at a time; leave one out")
    given: dict[str, object] = {"seconds": _time(args.seconds, profile.seconds)}
    for name, text in (("power_w", args.power), ("max_power_w", args.max_power)):
        if text:
            given[name] = units.parse(text, "W")
            if not units.parse(text, "W") > 0:
                raise InputError(f"a power is above 0 W, not {text}")
    for name, text in (("temperature_c", args.temperature), ("max_temperature_c", args.max_temperature)):
        if text:
            given[name] = stress.celsius(text, f"--{name.removesuffix('_c').replace('_', '-')}")
    cycle_s = sum(one.seconds for one in profile.phases)
    share = min(float(str(given["seconds"])) / cycle_s, 1.0)  # every phase has its turn, however short the run
    return replace(profile, **given, phases=[replace(one, seconds=one.seconds * share) for one in profile.phases])


def _judged(path: Path, own: Path | None, allowed: dict[str, float] | None = None, good: GoodRun | None = None) -> StressRun:
    bundle = bundles.load(path)
    found = judging.of(bundle, own, allowed, good)
    if found is None:
        raise InputError(f"the run {bundle.run.id} is no stress run; hotlap gate is for runs of a plan")
    for warning in [*(notice.text for notice in bundle.notices), *shown.torn(found)]:
        print(f"hotlap: {bundle.run.id}: {warning}", file=sys.stderr)
    return found


def _show(path: Path, args: argparse.Namespace, how: tuple[Path | None, dict[str, float]], good: StressRun | None) -> int:
    judged = _judged(path, *how, judging.good_run(good.verdict, good.bundle.run) if good else None)
    run = judged.bundle.run
    if good:
        stand_in.refuse_mixed([run, good.bundle.run])
    state = judged.verdict.state
    if not args.judge and run.stops == [Stop("over")] and state in ("pass", "fail", "inconclusive"):  # for the list of runs
        bundles.Writer.resume(path).finish(replace(run, stops=[Stop("over", state=state)]))
    if args.out:
        kind = kinds.of(judged.bundle)
        shown_as = {run.id: (kind, judged)} if kind else {}
        terminal.write_page(Path(args.out), report.render([(judged.bundle, rows.rows(judged.bundle))], shown_as))
    code = 130 if run.stopped_by("interrupted") else EXIT_CODES.get(judged.verdict.state, 3)
    if args.json:
        terminal.answer(args.json, judged.verdict, code=code)
    else:
        print(shown.report_of(judged, terminal.width(), color=terminal.color()))
        print(f"kept as {run.id}")
    return code


class View:
    """How it is going: rows that are rewritten on a terminal, plain lines in a log."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.live, self.clock = stream, stream.isatty(), SystemClock()
        self.profile: Profile | None = None
        self.title = ""  # told with the first word of a device: arguments that are wrong come before it
        self.devices: dict[str, Device] = {}
        self.ticks: dict[str, list[Tick]] = {}
        self.errors: dict[str, int] = {}
        self.counted: dict[str, int] = {}  # those that ticks tell: of many, not every one has a line
        self.states: dict[str, str] = {}
        self.drawn, self.drawn_s, self.logged_s = 0, -1e9, dict[str, float]()

    def begin(self, profile: Profile) -> None:
        self.profile = profile
        self.title = f"stress {profile.name} for {judging.span(profile.seconds)}: {profile.about}"

    def __call__(self, device: Device, line: Line) -> None:
        if self.title:
            title, self.title = self.title, ""
            self._line(title)
        key = device.key
        self.devices.setdefault(key, device)
        if isinstance(line, Mismatch):
            self.errors[key] = self.errors.get(key, 0) + 1
            if self.errors[key] <= 5:
                self._line(f"{device.selector} WRONG {line.unit}, {line.place}: expected {line.expected}, got {line.got} ({line.kind})")
        elif isinstance(line, Happened):
            if line.what in ("limit", "lost", "hung", "ended"):
                self.states[key] = line.what
            elif line.what == "began":
                self.states.pop(key, None)
            if line.what not in ("coverage", "began", "units"):
                self._line(f"{device.selector} {line.what}: {line.detail}")
        else:
            self.ticks.setdefault(key, []).append(line)
            self.counted[key] = self.counted.get(key, 0) + sum(line.wrong.values())
            self.errors[key] = max(self.errors.get(key, 0), self.counted[key])
            del self.ticks[key][:-KEPT]
            self._log(device, line)
        self._draw()

    def _log(self, device: Device, line: Tick) -> None:
        due = self.logged_s.get(device.key, -1e9) + LOG_S
        if self.live or self.clock.now() < due:
            return
        self.logged_s[device.key] = self.clock.now()
        past_s = line.time_s - self.ticks[device.key][0].time_s
        self._line(f"{device.selector} {shown.logged(line, past_s, self.errors.get(device.key, 0))}")

    def _draw(self) -> None:
        if not self.live or self.clock.now() - self.drawn_s < DRAW_S:
            return
        self.drawn_s = self.clock.now()
        text = shown.rows(self.devices, self.ticks, self.errors, self.states, terminal.width())
        left = self._left()
        self._clear()
        self.stream.write("\n".join([*(line[: terminal.width()] for line in text), left][-22:]) + "\n")
        self.stream.flush()
        self.drawn = len(text) + 1

    def _left(self) -> str:
        spans = [
            session.loaded_s(ticks[-1:]) if len(ticks) < 2 else ticks[-1].time_s - ticks[0].time_s for ticks in self.ticks.values() if ticks
        ]
        if self.profile is None or not spans:
            return "starting"
        left = max(self.profile.seconds - min(spans), 0.0)
        return f"{int(left // 3600)}:{int(left // 60 % 60):02}:{int(left % 60):02} left   Ctrl-C stops and keeps everything"

    def _clear(self) -> None:
        if self.drawn:
            self.stream.write(f"\x1b[{self.drawn}A\x1b[J")
            self.drawn = 0

    def _line(self, text: str) -> None:
        self._clear()
        lines = layout.paragraph("", text, terminal.width() - 1, most=8) if self.live else [text]
        self.stream.write("".join(f"{line}\n" for line in lines))
        self.stream.flush()

    def end(self) -> None:
        self._clear()
        self.stream.flush()
