"""Prometheus metrics: their families as prometheus_client writes them; what is read has every trap of the format."""

import builtins

import pytest
from prometheus_client import CollectorRegistry, generate_latest, parser

from hotlap.core.errors import Unavailable
from hotlap.core.record import Reading
from hotlap.nodes.sensors import exposition

READINGS = [
    Reading(sensor="power_w", device="GPU-1", time_s=0, value=300.5),
    Reading(sensor="power_w.average", device="GPU-1", time_s=0, value=290.0),
    Reading(sensor="energy_j", device="GPU-1", time_s=0, value=12.0),
    Reading(sensor="throttle", device="GPU-1", time_s=0, value=float(0x4 | 0x40)),
    Reading(sensor="temperature_c", device="GPU-1", time_s=0, status="error", reason="dead"),
]
LABELS = {"GPU-1": {"gpu": "0", "uuid": "GPU-1", "host": 'a"b\\c\nd'}}


def page(readings: list[Reading], labels: dict[str, dict[str, str]]) -> str:
    class Once:
        def collect(self):
            return exposition.families(readings, labels)

    registry = CollectorRegistry()
    registry.register(Once())
    return generate_latest(registry).decode()


def test_the_reference_parser_reads_it():
    families = {f.name: f for f in parser.text_string_to_metric_families(page(READINGS, LABELS))}
    assert families["hotlap_power_watts"].samples[0].value == 300.5
    assert families["hotlap_power_watts"].samples[0].labels == LABELS["GPU-1"]
    assert families["hotlap_power_watts"].samples[1].labels["sensor"] == "average"
    assert families["hotlap_energy_joules"].type == "counter"
    held = {s.labels["cause"] for s in families["hotlap_throttle_active"].samples if s.value}
    assert held == {"software_power_cap", "hardware_thermal"}


def test_help_says_what_a_metric_is() -> None:
    assert "# HELP hotlap_power_watts Power drawn\n" in page(READINGS, LABELS)


def test_a_dead_sensor_is_absent_not_zero():
    assert "temperature" not in page(READINGS, LABELS)


def test_what_was_written_is_read_back():
    power = exposition.read(page(READINGS[:1], LABELS), "d", 1.0)
    assert power[0].value == 300.5
    assert 'host=a"b\\c\nd' in power[0].sensor


def test_traps_of_the_format():
    text = '# TYPE a gauge\na{l="x,y}"} 1 1700000000000\nb NaN\nc +Inf\nd{broken 1\ne{a="}"} 2 # {trace="1"} 3\n'
    a, b, c, d, e = exposition.read(text, "d", 1.0)
    assert (a.value, a.sensor_s) == (1.0, 1700000000.0)
    assert [r.status for r in (b, c, d)] == ["error"] * 3
    assert b.value is None
    assert e.value == 2.0
    assert exposition.read("a 1 1700000000.5\n# EOF\n", "d", 1.0)[0].sensor_s == 1700000000.5


def test_what_only_grows_is_a_counter() -> None:
    assert exposition.named("throttle_s") == ("hotlap_throttle_seconds_total", "counter")
    assert exposition.named("pcie_bytes") == ("hotlap_pcie_bytes_total", "counter")
    assert exposition.named("nvlink_errors") == ("hotlap_nvlink_errors_total", "counter")
    assert exposition.named("ecc_corrected") == ("hotlap_ecc_corrected_total", "counter")
    assert exposition.named("pcie_replays") == ("hotlap_pcie_replays_total", "counter")
    assert exposition.named("remapped_rows") == ("hotlap_remapped_rows", "gauge")


def test_without_the_library_one_line_names_the_extra(monkeypatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object, **more: object) -> object:
        if name.startswith("prometheus_client"):
            raise ImportError("No module named 'prometheus_client'")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(Unavailable, match="need prometheus_client") as error:
        exposition.samples("a 1")
    assert error.value.remedy == "pip install prometheus-client"
