"""A plan measured at one setting of clock or power after another; what stood before is back at the end, however that comes."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from hotlap.core import units
from hotlap.core.errors import Busy, InputError, MachineError, Unavailable
from hotlap.core.measure import sensors, session, targets
from hotlap.core.measure.sensors import nvml
from hotlap.core.measure.supervisor import Process
from hotlap.core.record import Device, Plan
from hotlap.core.store import locks
from hotlap.tuning import power_guard
from hotlap.tuning.power_guard import GuardAnswer, GuardBegin, Wish
from hotlap.tuning.power_settings import Bounds, Settings, check


@dataclass(frozen=True)
class Measured:
    """A run and the setting that it was measured at."""

    name: str
    path: Path


def name(wish: Wish) -> str:
    """1.2 GHz, 400 W, or free where nothing is held."""
    parts = [] if wish.clock_hz is None else [units.show(wish.clock_hz, "Hz")]
    parts += [] if wish.power_w is None else [units.show(wish.power_w, "W")]
    return " ".join(" ".join(part.split()) for part in parts) or "free"


def note(device: Device, home: Path) -> Path:
    """Where what stood before is remembered."""
    return home / "settings" / f"{device.uuid or device.pci_address or device.index}.json".replace(":", "-")


def bounds(device: Device) -> Bounds:
    """What the driver allows. Raises Unavailable where it cannot be asked."""
    return Settings(device).bounds()


def measure(
    plan: Plan, options: session.SessionOptions, wishes: Sequence[Wish], listen: session.Listener, say: Callable[[str], None]
) -> list[Measured]:
    """A run for each wish. `part_of` of the options: the command that begins them anew; none goes on alone.

    Raises InputError for settings that the driver does not allow, MachineError where it refuses them, and Unavailable, before anything is
    set, where no sensor tells the energy.
    """
    spec = targets.parse(options.target) if options.target else targets.default()
    devices = session.choose(targets.find(spec), options.device)
    if len(devices) != 1:
        raise InputError(f"a frontier is of one device; {len(devices)} were chosen: --device INDEX")
    if spec.name == "simulated":
        sensed(spec, devices[0])
        return [_run(plan, replace(options, target=_held(spec.text, wish)), wish, listen, say) for wish in wishes]
    allowed = bounds(devices[0])
    sensed(spec, devices[0])
    if allowed.locked:
        raise Busy(f"{devices[0].name}: somebody has set its clocks, and NVML cannot read back to what; lift that first: nvidia-smi -rgc")
    for wish in wishes:
        check(allowed, wish.clock_hz, wish.power_w)
    points = []
    own = locks.hold(devices, options.wait_s, settings=True)  # another would mend what this one has set
    with own, guarded(devices[0], options.home, say) as put:
        for wish in wishes:
            put(wish)
            points.append(_run(plan, options, wish, listen, say))
    return points


def sensed(spec: targets.TargetSpec, device: Device) -> None:
    """Raises Unavailable where no sensor tells a device's power or energy: then no setting can be compared with another."""
    sources = sensors.find(targets.open_device(spec, device)) if spec.name == "simulated" else [nvml.opened(device)]
    readings = [reading for source in sources for reading in source.read(0.0) if reading.sensor in ("power_w", "energy_j")]
    if any(reading.value is not None for reading in readings):
        return
    why = "; ".join(f"{reading.sensor}: {reading.reason or reading.status}" for reading in readings) or "it has none"
    raise Unavailable(
        f"{device.name}: no sensor tells its power or energy ({why}), so no setting can be compared with another; nothing was set",
        "without --apply the model says what it expects",
    )


def _run(plan: Plan, options: session.SessionOptions, wish: Wish, listen: session.Listener, say: Callable[[str], None]) -> Measured:
    say(f"at {name(wish)}")
    labels: Mapping[str, str] = {**options.labels, "setting": name(wish).replace(" ", "_")}
    return Measured(name(wish), session.run(plan, replace(options, labels=labels), listen))


def _held(text: str, wish: Wish) -> str:
    """A simulated target with its settings as options."""
    given = [f"clock={wish.clock_hz!r}Hz"] if wish.clock_hz is not None else []
    given += [f"power_cap={wish.power_w!r}W"] if wish.power_w is not None else []
    return text + ("&" if "?" in text else "?") * bool(given) + "&".join(given)


@contextmanager
def guarded(device: Device, home: Path, say: Callable[[str], None]) -> Iterator[Callable[[Wish], None]]:
    """A function that sets; everything is put back when the block, this process or the machine's patience ends. Raises MachineError."""
    path = note(device, home)
    if power_guard.mend(path):
        say(f"settings that an earlier run could not put back have been restored ({path})")
    process = Process("hotlap.tuning.power_guard", GuardBegin(device=device, note=str(path)), math.inf, threading.Event())
    answers = process.lines()

    def put(wish: Wish) -> None:
        process.write(msgspec.json.encode(wish) + b"\n")
        _check(answers)

    try:
        with process:
            _check(answers)
            yield put
    finally:
        if process.status and power_guard.mend(path):  # it was killed before it could
            say("the process that guards the settings was ended; they have been restored from here")
        elif process.status:
            raise MachineError(f"the settings may not be as before: {process.last_words()}; nvidia-smi -q -d CLOCK,POWER")


def _check(answers: Iterator[bytes]) -> None:
    """Raises MachineError with the problem that the process had with the last wish."""
    line = next(answers, b"")
    if not line:
        raise MachineError("the process that sets clocks and caps has ended; what it had set is being restored")
    problem = msgspec.json.decode(line, type=GuardAnswer).problem
    if problem:
        raise MachineError(problem)
