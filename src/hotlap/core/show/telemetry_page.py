"""A watch as part of a page: per device what each sensor read as a table, and the sensors that matter most over time."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from hotlap.core.show import charts, telemetry
from hotlap.core.show.bands import Band, Time, bands, figure, range_said, sensor_chart
from hotlap.core.show.telemetry import Watched
from hotlap.core.store.bundle import Bundle

DRAWN = (  # stem of the sensor, unit, name, whether the axis begins at zero
    ("power_w", "W", "Power", True), ("clock_hz", "Hz", "Clock", True), ("temperature_c", "°C", "Temperature", False),
    ("utilization", "share", "Utilization", True), ("memory_used_bytes", "B", "Memory in use", True),
)
FIRST = ("", ".sm", ".average", ".package0", ".package-0")  # parts of a sensor, the one to draw first
SAID = 3  # devices that the lead tells the energy of


def lead(found: Sequence[Watched]) -> str:
    """What was watched, in a sentence."""
    spent = [f"{one.name} used {telemetry.value('energy_j', one.energy.joules)}" for one in found if one.energy and one.energy.joules]
    sensors = sum(1 for one in found for s in one.sensors if s.count)
    said = f"{sensors} sensors of {len(found)} device{'s' * (len(found) != 1)} were read" + "".join(f"; {text}" for text in spent[:SAID])
    return f'<p class="lead">{escape(said)}.</p>'


def section(bundle: Bundle, found: Sequence[Watched]) -> str:
    """Per device: charts, energy and what held it down, then every sensor."""
    drawable = bands(bundle)
    spans = [band.times_s for band in drawable.values() if len(band.times_s)]
    if not spans:
        return "<p>No sensor gave a value.</p>"
    axis = Time(min(float(s[0]) for s in spans), max(float(s[-1]) for s in spans))
    parts = []
    for one in found:
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


def _table(one: Watched) -> str:
    heads = ("Least", "Mean", "Most", "Averaged over")
    head = "<th>Sensor</th>" + "".join(f'<th class="n">{name}</th>' for name in heads)
    rows = []
    for s in one.sensors:
        if s.count and s.name != "throttle":
            mean = telemetry.value(s.name, s.mean) if telemetry.averages(s.name) else "–"
            cells = [telemetry.value(s.name, s.low), mean, telemetry.value(s.name, s.high), telemetry.window(s.window_s) or "–"]
            rows.append(f"<tr><th>{escape(s.name)}</th>{''.join(f'<td class=n>{escape(cell)}</td>' for cell in cells)}</tr>")
        elif not s.count:
            rows.append(f'<tr><th>{escape(s.name)}</th><td colspan="4">no value: {escape(s.reason)}</td></tr>')
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
