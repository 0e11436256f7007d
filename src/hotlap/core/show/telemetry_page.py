"""A watch as part of a page: per device what each sensor read as a table, and the sensors that matter most over time."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from hotlap.core.show import charts, telemetry
from hotlap.core.show.bands import Band, Time, bands, figure, range_said, sensor_chart
from hotlap.core.show.table import Cell, Column, Table, html
from hotlap.core.show.telemetry import Sensor, Watched
from hotlap.core.show.words import counted
from hotlap.core.store.bundle import Bundle

DRAWN = (  # stem of the sensor, unit, name, whether the axis begins at zero
    ("power_w", "W", "Power", True), ("clock_hz", "Hz", "Clock", True), ("temperature_c", "°C", "Temperature", False),
    ("utilization", "share", "Utilization", True), ("memory_used_bytes", "B", "Memory in use", True),
)
FIRST = ("", ".sm", ".average", ".package0", ".package-0")  # parts of a sensor, the one to draw first
SAID = 3  # devices that the lead tells the energy of


def lead(watched: Sequence[Watched]) -> str:
    """What was watched, in a sentence."""
    spent = [f"{one.name} used {telemetry.value('energy_j', one.energy.joules)}" for one in watched if one.energy and one.energy.joules]
    sensors = sum(1 for one in watched for s in one.sensors if s.count)
    said = f"{sensors} sensors of {counted(len(watched), 'device')} were read" + "".join(f"; {text}" for text in spent[:SAID])
    return f'<p class="lead">{escape(said)}.</p>'


def section(bundle: Bundle, watched: Sequence[Watched]) -> str:
    """Per device: charts, energy and what held it down, then every sensor."""
    drawable = bands(bundle)
    spans = [band.times_s for band in drawable.values() if len(band.times_s)]
    if not spans:
        return "<p>No sensor gave a value.</p>"
    axis = Time(min(float(s[0]) for s in spans), max(float(s[-1]) for s in spans))
    parts = []
    for one in watched:
        mine = {sensor: band for (device, sensor), band in drawable.items() if device == one.device}
        notes = "".join(f"<p>{escape(line.strip())}</p>" for line in telemetry.notes(one))
        parts.append(f'<h3>{escape(one.name)}</h3>{notes}<div class="plots">{_charts(mine, axis)}</div>{_table(one)}')
    return "".join(parts)


def _charts(mine: dict[str, Band], axis: Time) -> str:
    drawn = []
    for stem, unit, name, zero in DRAWN:
        some = [sensor for sensor in mine if sensor.partition(".")[0] == stem]
        parts = [sensor for sensor in some if len(mine[sensor].times_s) > 1 and mine[sensor].high.any()]
        if not parts:
            continue
        sensor = next((f"{stem}{part}" for part in FIRST if f"{stem}{part}" in parts), parts[0])
        chart: charts.Chart = sensor_chart(mine[sensor], name, unit, zero, None, axis)
        drawn.append(figure(name if sensor == stem else f"{name} ({sensor})", range_said(mine[sensor], unit), chart))
    return "".join(drawn)


def _table(watched: Watched) -> str:
    """What each sensor read; of those without a value, why."""
    shown = [s for s in watched.sensors if not s.count or s.name != "throttle"]
    rows = [_values(s) if s.count else ("–", "–", "–", f"no value: {s.reason}") for s in shown]
    columns = [Column("Sensor", [Cell(s.name) for s in shown], names=True)]
    columns += [Column(head, [Cell(row[n]) for row in rows], right=True) for n, head in enumerate(("Least", "Mean", "Most"))]
    return html(Table([*columns, Column("Averaged over", [Cell(row[3]) for row in rows])]))


def _values(s: Sensor) -> tuple[str, str, str, str]:
    mean = telemetry.value(s.name, s.mean) if telemetry.averages(s.name) else "–"
    return telemetry.value(s.name, s.low), mean, telemetry.value(s.name, s.high), telemetry.window(s.window_s) or "–"
