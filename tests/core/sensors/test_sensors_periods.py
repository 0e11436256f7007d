"""How often sensors update, found by reading them faster, and what their drivers take."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest

from hotlap import cli
from hotlap.core.measure.sensors.gauge import SensorProbe, absent, read_all, spent
from hotlap.core.measure.sensors.sampler import Sampler
from hotlap.core.measure.targets.virtual_clock import VirtualClock
from hotlap.core.record import Reading
from hotlap.nodes.cli import periods as showing
from hotlap.nodes.sensors import periods


class Card:
    """`power_w` is new every 100 ms, `energy_j` always, `fan` never, `utilization` is the average since the last reading."""

    name, device = "card", "gpu"

    def __init__(self, call_s: float = 0.0) -> None:
        self.call_s = call_s
        self.gauges = [
            SensorProbe("power_w", lambda t: np.floor(t / 0.1 + 1e-9), window_s=1.0), SensorProbe("energy_j", self._slow, window_s=0.0),
            SensorProbe("fan", lambda _: 0.3), SensorProbe("utilization", lambda t: t, window_s="since the last reading"), absent("xid", "no events"),
        ]  # fmt: skip

    def _slow(self, time_s: float) -> float:
        end = time.perf_counter() + self.call_s
        while time.perf_counter() < end:
            pass
        return time_s

    def names(self) -> Sequence[str]:
        return [one.name for one in self.gauges]

    def read(self, time_s: float) -> list[Reading]:
        return read_all(self.gauges, self.device, time_s)


def test_periods_are_found() -> None:
    found, _ = periods.measure([Card()], VirtualClock(), 5.0, 0.01)
    by = {one.sensor: one for one in found}
    assert by["power_w"].found_s == pytest.approx(0.1, abs=0.011)
    assert (by["power_w"].at_most, by["power_w"].window_s) == (False, 1.0)
    assert by["energy_j"].found_s == pytest.approx(0.01)
    assert by["energy_j"].at_most
    assert (by["fan"].changes, by["fan"].found_s) == (0, None)
    assert by["utilization"].since_last
    assert (by["xid"].readings, by["xid"].reason) == (0, "no events")
    text = "\n".join(showing.lines(found, [], {"gpu": "the card"}, 120))
    assert "worth reading at 100 Hz: energy_j\n" in text
    assert "never changed" in text
    assert "each reading" in text
    assert "no value of xid: no events" in text


@pytest.mark.parametrize("every", [0.013, 0.05, 0.2])
def test_a_period_is_right_to_within_one_reading(every: float) -> None:
    times = np.arange(0, 20, 0.01)
    found, changes, at_most = periods.find(times, np.floor(times / every))
    assert found == pytest.approx(every, abs=0.0101)
    assert changes >= periods.FEWEST
    assert at_most == (every < 0.011)


def test_too_few_changes_tell_no_period() -> None:
    times = np.arange(0, 10, 0.01)
    assert periods.find(times, np.floor(times / 4)) == (None, 2, False)


def test_a_driver_is_told_apart_from_the_sampler() -> None:
    card, clock = Card(call_s=0.002), VirtualClock()
    sampler = Sampler(clock, [card], 0.1)
    sampler.start()
    clock.sleep(1.05)
    sampler.stop()
    calls = spent(card)["energy_j"]
    assert calls.calls == sampler.sweeps == 10
    assert calls.seconds >= 10 * 0.002
    assert sampler.driver_s >= calls.seconds
    assert sampler.spent_s >= sampler.driver_s
    assert sampler.own_share == pytest.approx((sampler.spent_s - sampler.driver_s) / 10 / 0.1)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["node", "watch", "--periods", "--target", "simulated:h200-sxm", "--for", "1 s"]) == 0
    out = capsys.readouterr().out
    assert "new every" in out
    assert "asked together: all of simulated" in out
    assert cli.main(["node", "watch", "--periods", "--to", "lines"]) == 2
    assert "--periods reads the devices of this machine alone" in capsys.readouterr().err
