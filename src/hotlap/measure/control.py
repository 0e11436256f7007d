"""The duty cycle that holds a card's power or temperature at a target, and the limits at which load stops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MARGIN_C = 2.0  # below the device's own slowdown temperature: there the load stops unasked
LEAST = 0.02  # of duty: below it nothing would be checked


@dataclass
class Controller:
    """PI on the relative error, with the integral held where the duty is at its end (anti-windup by clamping)."""

    target: float
    gain: float = 0.3
    integral_s: float = 4.0
    duty: float = 0.5
    summed: float = 0.5

    def step(self, shown: float, seconds: float) -> float:
        """The duty for the next while, after `seconds` with `shown` on the sensor."""
        error = (self.target - shown) / self.target
        wanted = self.gain * error + self.summed + self.gain * error * seconds / self.integral_s
        self.duty = min(max(wanted, LEAST), 1.0)
        if wanted == self.duty or (wanted - self.duty) * error < 0:
            self.summed += self.gain * error * seconds / self.integral_s
        return self.duty


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
