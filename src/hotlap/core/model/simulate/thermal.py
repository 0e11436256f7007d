"""Temperature of a card over time: one resistance, one capacity; it slows itself down above its limit."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class Thermal:
    """A card's heat. Defaults: 55 K above 30 °C air at 700 W, 40 s to settle; assumed, of the size that air-cooled modules show."""

    ambient_c: float = 30.0
    k_per_w: float = 55.0 / 700.0
    settle_s: float = 40.0
    limit_c: float = 87.0  # slows above: assumed, drivers of H100 show 87 °C
    temperature_c: float = 30.0

    def steady_c(self, watts: float) -> float:
        """Where it ends up under constant power."""
        return self.ambient_c + self.k_per_w * watts

    def after(self, watts: float, seconds: float) -> float:
        """Moves on by `seconds` at constant power; exact for any step."""
        end = self.steady_c(watts)
        self.temperature_c = end + (self.temperature_c - end) * math.exp(-seconds / self.settle_s)
        return self.temperature_c

    def cap_w(self, limit_w: float) -> float:
        """The most power that keeps the card at its temperature limit once it is there."""
        if self.temperature_c < self.limit_c:
            return limit_w
        return min(limit_w, max(0.0, (self.limit_c - self.ambient_c) / self.k_per_w))


def for_limit(limit_w: float | None, ambient_c: float = 30.0) -> Thermal:
    """A card whose cooler is made for its power limit: 55 K at that power."""
    return Thermal(ambient_c=ambient_c, k_per_w=55.0 / (limit_w or 300.0), temperature_c=ambient_c)
