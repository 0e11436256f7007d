"""The duty cycle and the mix of units that hold a card's power or temperature at a target, and the limits at which load stops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MARGIN_C = 2.0  # below the device's own slowdown temperature: there the load stops unasked
LEAST = 0.02  # of duty: below it nothing would be checked
POWER_INTEGRAL_S = 1.5  # power follows the duty at once, temperature only after a minute
SHORT = 0.98  # of the target: below it, at full duty, duty alone does not hold it
SHORT_S = 3.0  # for so long
STEEPEST = 10.0
MORE = 1.02  # times the power of the phase's own units: another one that draws more


@dataclass
class Controller:
    """PI on the relative error, with the integral held where the output is at its end (anti-windup by clamping).

    Up to 1 the output is the duty of the phase's own units; from 1 to 2 duty is full, and what is above 1 is the share of the time that a
    unit which draws more takes from them (split range). `most` is 1 until there is such a unit."""

    target: float
    gain: float = 0.3
    integral_s: float = 4.0
    duty: float = 0.5
    summed: float = 0.5
    most: float = 1.0
    steep: float = 1.0  # gain above 1, where a share of the mix moves less power than a share of duty does
    short_s: float = 0.0  # for how long full duty has not been enough

    @property
    def on(self) -> float:
        """Share of the time with load."""
        return min(self.duty, 1.0)

    @property
    def mixed(self) -> float:
        """Share of the load that is the unit which draws more."""
        return max(self.duty - 1.0, 0.0)

    def reach(self, own_w: float, more_w: float, power: bool) -> None:
        """A unit that draws `more_w` can be mixed in with those that draw `own_w`. A target of power begins with the share that follows."""
        self.most = 2.0
        self.steep = min((self.target if power else more_w) / (more_w - own_w), STEEPEST)
        if power:
            self.summed = self.duty = 1.0 + min(max((self.target - own_w) / (more_w - own_w), 0.0), 1.0)

    def step(self, shown: float, seconds: float) -> float:
        """The duty for the next while, after `seconds` with `shown` on the sensor."""
        error = (self.target - shown) / self.target * (self.steep if self.duty > 1 else 1.0)
        wanted = self.gain * error + self.summed + self.gain * error * seconds / self.integral_s
        self.duty = min(max(wanted, LEAST), self.most)
        if wanted == self.duty or (wanted - self.duty) * error < 0:
            self.summed += self.gain * error * seconds / self.integral_s
        self.short_s = self.short_s + seconds if self.duty >= self.most and shown < SHORT * self.target else 0.0
        return self.duty


@dataclass
class Mix:
    """What each unit drew alone at full duty, and which one is worth mixing in."""

    watts: dict[str, float] = field(default_factory=dict)

    def more(self, own: Sequence[str]) -> str:
        """The unit that draws the most, where that is more than the phase's own units do on average; else ""."""
        best, here = max(self.watts, key=lambda name: self.watts[name], default=""), self.of(own)
        return best if best and here and self.watts[best] > MORE * here else ""

    def of(self, own: Sequence[str]) -> float:
        """What units drew on average that take turns; 0 where none was measured."""
        here = [self.watts[name] for name in own if name in self.watts]
        return sum(here) / len(here) if here else 0.0


@dataclass(frozen=True)
class Limits:
    """Where the load stops."""

    power_w: float | None = None
    temperature_c: float | None = None
    slowdown_c: float | None = None

    def reached(self, shown: Mapping[str, float]) -> str:
        """Which limit, in words; "" where none. A temperature above 150 °C is a sensor that lies, not a card that hot."""
        heat, power = shown.get("temperature_c"), shown.get("power_w")
        if heat is not None and heat < 150:
            if self.slowdown_c is not None and heat >= self.slowdown_c - MARGIN_C:
                return f"temperature {heat:.1f} °C is within {MARGIN_C:g} °C of the device's own slowdown at {self.slowdown_c:g} °C"
            if self.temperature_c is not None and heat >= self.temperature_c:
                return f"temperature {heat:.1f} °C reached the limit asked, {self.temperature_c:g} °C"
        if power is not None and self.power_w is not None and power >= self.power_w:
            return f"power {power:.0f} W reached the limit asked, {self.power_w:g} W"
        return ""
