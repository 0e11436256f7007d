"""Counters judged by their growth between two readings of a node."""

from __future__ import annotations

import re

import pytest

from hotlap.core.errors import InputError
from hotlap.nodes import audit, expression, growth
from hotlap.nodes.facts import Fact, Facts
from hotlap.nodes.growth import Earlier

RULES = audit.builtin()
NV = {"gpu[0].vendor": "nvidia", "gpu[0].address": "0000:17:00.0"}
PORT = "ib[mlx5_0:1]"
IB = {f"{PORT}.state": "ACTIVE"}


def node(values: dict) -> Facts:
    return Facts(host="n", facts={name: Fact(value=value) for name, value in values.items() if value is not None})


# Growth of counters: what they were, what a good node shows an hour later, and a bad one.
SINCE: dict[str, tuple[dict, dict, dict]] = {
    **{
        f"ib-{leaf.replace('_', '-')}": ({f"{PORT}.{leaf}": 40}, {f"{PORT}.{leaf}": 40}, {f"{PORT}.{leaf}": 41})
        for leaf in ("symbol_errors", "link_downed", "link_recoveries", "receive_errors", "integrity_errors", "overruns", "discards")
    },
    "net-errors": tuple({"net[eth0].errors_rx": 7, "net[eth0].errors_tx": n} for n in (2, 2, 3)),
    "net-missed": tuple({"net[eth0].missed_rx": n} for n in (4, 4, 5)),
    "net-link-downs": tuple({"net[eth0].link_downs": n} for n in (4, 4, 5)),
    "pcie-replays": tuple({**NV, "gpu[0].pcie.replays": n} for n in (100, 580, 700)),
    "aer-correctable": tuple({**NV, "gpu[0].pcie.aer_correctable": n, "gpu[0].pcie.line_bits_per_s": 512_000_000_000} for n in (0, 1843, 2000)),
    **{f"aer-{kind}": tuple({**NV, f"gpu[0].pcie.aer_{kind}": n} for n in (3, 3, 4)) for kind in ("nonfatal", "fatal")},
    "aer-others": tuple({"pci[a].class": "0200", "pci[a].pcie.aer_nonfatal": n, "pci[a].pcie.aer_fatal": 0} for n in (1, 1, 2)),
    "aer-others-correctable": tuple(
        {"pci[a].class": "0108", "pci[a].pcie.aer_correctable": n, "pci[a].pcie.line_bits_per_s": 64_000_000_000} for n in (0, 230, 300)
    ),
    "dram-uncorrected": tuple({**NV, "gpu[0].ecc.uncorrected": n} for n in (2, 2, 3)),
    "sram-uncorrected": tuple({**NV, "gpu[0].ecc.sram_uncorrected": n} for n in (1, 1, 2)),
    "memory-uncorrected": tuple({"memory.ecc_uncorrected": n} for n in (1, 1, 2)),
    "memory-corrected": tuple({"memory.ecc_corrected": n} for n in (12, 12, 13)),
}
GROWING = audit.growing(RULES)


def since(name: str, before: dict, now: dict, hours: float | None = 1.0, rebooted: bool = False) -> list[audit.AuditOutcome]:
    return audit.audit(node(now), {name: GROWING[name]}, RULES[name].profiles[0], Earlier(node(before), hours, rebooted))


def test_every_rule_about_growth_has_its_cases() -> None:
    assert set(SINCE) == {name for name, rule in GROWING.items() if expression.grows(expression.parse(rule.expect))}


@pytest.mark.parametrize("name", SINCE)
def test_a_counter_is_judged_by_its_growth(name: str) -> None:
    before, good, bad = SINCE[name]
    assert [one.state for one in since(name, before, good)] == ["pass"]
    (one,) = since(name, before, bad)
    assert one.finding is not None
    assert one.finding.severity == GROWING[name].severity
    assert re.search(r", growth is \d+ in 1 h, [\d.e+]+ an hour", one.finding.detail)


def test_growth_alone_is_not_applicable_without_an_earlier_reading() -> None:
    (one,) = audit.audit(node(SINCE["net-link-downs"][2]), {"x": RULES["net-link-downs"]}, "bench")
    assert (one.state, "--since" in one.reason) == ("not applicable", True)


@pytest.mark.parametrize(("before", "now", "rebooted", "state", "why"), [
    (9, 3, False, "not known", "was cleared"), (None, 3, False, "not known", "was not known at the earlier"), (3, 9, True, "not known", "booted in between"),
    (3, None, False, "not applicable", "only where"),
])
def test_growth_that_cannot_be_told_is_not_known(before: int | None, now: int | None, rebooted: bool, state: str, why: str) -> None:
    name = "ib-symbol-errors"
    (one,) = since(name, {**IB, f"{PORT}.symbol_errors": before}, {**IB, f"{PORT}.symbol_errors": now}, rebooted=rebooted)
    assert (one.state, why in one.reason) == (state, True)


def test_counters_of_a_cards_whole_life_outlast_a_boot() -> None:
    before, _, bad = SINCE["dram-uncorrected"]
    assert [one.state for one in since("dram-uncorrected", before, bad, rebooted=True)] == ["finding"]


def test_a_few_errors_in_a_short_time_do_not_prove_a_rate() -> None:
    before, now = ({**NV, "gpu[0].pcie.replays": n} for n in (0, 12))
    assert [one.state for one in since("pcie-replays", before, now, 60 / 3600)] == ["pass"]  # 12 in 60 s: at least 6.9 a minute
    assert [one.state for one in since("pcie-replays", before, {**now, "gpu[0].pcie.replays": 20}, 60 / 3600)] == ["finding"]
    assert [one.state for one in since("pcie-replays", before, now, None)] == ["not known"]


@pytest.mark.parametrize(("count", "exact"), [(1, 0.0513), (2, 0.355), (10, 5.425), (100, 84.1)])
def test_the_lowest_rate_of_a_count_is_near_the_exact_limit(count: int, exact: float) -> None:
    """Half of chi-square's 5 % quantile with 2 n degrees of freedom, from its tables."""
    assert Earlier(node({}), 1.0).per_hour(count) == pytest.approx(exact, rel=0.25 if count == 1 else 0.03)


def test_two_readings_of_one_node_in_their_order() -> None:
    first, second = (Facts(host="n", taken=f"2026-11-21T1{n}:00:00Z", facts={"kernel.boot_id": Fact(value="a")}) for n in (0, 2))
    assert (growth.between(first, second).hours, growth.between(first, second).rebooted) == (2.0, False)
    with pytest.raises(InputError, match="not before this one"):
        growth.between(second, first)
    with pytest.raises(InputError, match="growth is computed for one node"):
        growth.between(Facts(host="m"), second)
