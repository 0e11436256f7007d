"""One second of looking at the machine before anything is measured, and waiting until it is idle."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from hotlap.core import units
from hotlap.core.errors import InputError
from hotlap.core.measure import session
from hotlap.core.measure.machine import busy
from hotlap.core.record import Device, Look, Plan
from hotlap.core.show.busy import KEPT, REPLACED, warning

LOOK_S = 1.0
LOOKED_TWICE = 2.0  # seconds between two looks of one that waits

Looker = Callable[[Sequence[Device]], Look]


def add(parser: argparse.ArgumentParser, of: str = "") -> None:
    """The options of a verb that measures. `of`: before their help."""
    wait(parser, f"{of}for a device that another run holds (default: refuse at once)")
    idle = f"{of}wait until the machine is idle, so long at most (default: 5 min)"
    parser.add_argument("--wait-quiet", nargs="?", const="5 min", metavar="TIME", help=idle)


def wait(parser: argparse.ArgumentParser, about: str) -> None:
    """The option that waits for a device."""
    parser.add_argument("--wait", metavar="TIME", help=about)


def wait_s(args: argparse.Namespace) -> float:
    """Of --wait. Raises InputError."""
    return units.parse(args.wait or 0.0, "s")


def before(plan: Plan, options: session.SessionOptions, wait: str | None, earlier: Sequence[Look] = ()) -> session.SessionOptions:
    """The options with the target that was chosen and what a look showed; what is busy is said on standard error.

    A simulated target is not looked at: nothing disturbs it. `wait`: longest time until the machine is idle, as text; None: do not wait.
    `earlier`: looks of just before, whose warning is not said again of the same kind of device.
    """
    patience_s = _patience(wait)
    began_s = time.monotonic()
    spec, devices = session.places(plan, options)
    if spec.name == "simulated":
        return options
    then = KEPT if plan.measure.sustain_s else REPLACED
    look = _looked(devices, earlier, then) if wait is None else quiet(devices, patience_s, then)
    waited_s = 0.0 if wait is not None else time.monotonic() - began_s  # the budget is of measuring, not of waiting
    return replace(options, target=spec.text, look=look, limit_s=max(options.limit_s - waited_s, 0.0))


def _patience(wait: str | None) -> float:
    try:
        patience_s = units.parse(wait or 0.0, "s")
    except InputError:
        message = f"--wait-quiet takes a time, as in '5 min', not '{wait}'; a plan stands before it: hotlap run {wait} --wait-quiet"
        raise InputError(message) from None
    if patience_s < 0:
        raise InputError(f"--wait-quiet is a time from 0 on, as in '5 min', not {wait}")
    return patience_s


def _looked(devices: Sequence[Device], earlier: Sequence[Look], then: str = REPLACED) -> Look:
    look = busy.look(devices, LOOK_S)
    said = any(one.kind == look.kind and warning(one) for one in earlier)
    if not said and (busy_with := warning(look)):
        say(f"{busy_with}; {then}; --wait-quiet '5 min' waits until it is idle")
    return look


def quiet(
    devices: Sequence[Device], patience_s: float, then: str = REPLACED, looker: Looker = lambda devices: busy.look(devices, LOOK_S),
) -> Look:  # fmt: skip
    """Looks until one finds the machine idle, for `patience_s` at most; says what it waits for, and how that ended: `then`, where it stays
    busy. The last look."""
    began_s, look = time.monotonic(), looker(devices)
    if not warning(look):
        return look
    say(f"{warning(look)}; waiting until it is idle, {units.exact(patience_s, 's')} at most")
    while time.monotonic() - began_s + LOOKED_TWICE + look.seconds <= patience_s:
        time.sleep(LOOKED_TWICE)
        look = looker(devices)
        if not warning(look):
            say(f"the machine is idle after {time.monotonic() - began_s:.0f} s")
            return look
    say(f"{warning(look)}; going on after {time.monotonic() - began_s:.0f} s all the same: {then}")
    return look


def say(text: str) -> None:
    """On standard error."""
    print(f"hotlap: {text}", file=sys.stderr)
