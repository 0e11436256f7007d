"""Imagined machines: what an edit changes, what follows from it, what is said of it, and what is refused."""

from __future__ import annotations

import pytest

from hotlap.core.errors import InputError
from hotlap.core.measure.targets import simulated
from hotlap.core.model import machines
from hotlap.core.model.predict import predict
from hotlap.core.plan import read as plans

BIG = {"m": 8192, "n": 8192, "k": 8192, "dtype": "bf16"}


@pytest.mark.parametrize(
    ("edit", "name", "value"),
    [
        ("l2_B=100e6", "l2_bytes", 100e6), ("l2_bytes=100MB", "l2_bytes", 100e6), ("cache.l2_bytes=1e+8", "l2_bytes", 1e8),
        ("memory_bandwidth_B_s=*1.2", "memory_bandwidth_b_s", 5760e9), ("bandwidth=1.2x", "memory_bandwidth_b_s", 5760e9),
        ("SMs=*1.1", "compute_units", 145), ("power_limit_w=900", "power_w", 900.0), ("host_b_s=*2", "host_b_s", 2 * 2 * 63.015e9),
        ("launch=*0.5", "launch_factor", 0.5),
    ],
)
def test_an_edit_changes_one_figure(edit: str, name: str, value: float) -> None:
    assert getattr(machines.load(f"h200-sxm+{edit}"), name) == pytest.approx(value, rel=1e-4)


def test_what_follows_from_a_figure_follows() -> None:
    plain, faster = machines.load("h200-sxm"), machines.load("h200+clock_max_hz=*1.1")
    assert faster.rate("matrix.bf16") == pytest.approx(1.1 * (plain.rate("matrix.bf16") or 0))
    assert faster.clock_for_peak_hz == pytest.approx(1.1 * (plain.clock_for_peak_hz or 0))
    assert faster.published_peak is None  # nobody publishes it
    assert faster.slug == "h200-sxm+clock_max_hz=*1.1"
    assert faster.original == plain


def test_provenance_says_what_was() -> None:
    found = predict("stream", "h200-sxm+memory_bandwidth_b_s=6e12", size="1 GiB")
    source = next(term.source for term in found.provenance if term.name == "memory bandwidth")
    assert source == "edited: was 4.8 TB/s in the machine table"
    assert "what-if" in found.calibration_level


def test_a_figure_names_only_its_own_edits() -> None:
    capped = {term.name: term.source for term in predict("gemm", "h200-sxm+power_w=500", **BIG).provenance}
    assert not [name for name, source in capped.items() if "power_w edited" in source]
    fewer = {term.name: term.source for term in predict("gemm", "h200-sxm+compute_units=100+power_w=500", **BIG).provenance}
    assert "compute_units edited: was 132" in fewer["peak matrix.bf16"]
    assert "power_w" not in fewer["peak matrix.bf16"]
    assert fewer["clock"] == "highest published clock: machine table, h200-sxm"


def test_a_faster_matrix_unit_is_fed_as_before() -> None:
    """Twice the matrix rate alone gains less than twice; with L2 twice as wide more."""
    plain, faster, fed = (predict("gemm", f"h200-sxm{edit}", **BIG).expected_s for edit in ("+power_w=7000", "+power_w=7000+matrix_rate=*2", "+power_w=7000+matrix_rate=*2+l2_bandwidth=*2"))
    assert plain / 2 < fed < faster < plain


def test_a_higher_limit_draws_more_only_where_it_was_held() -> None:
    held, free = (predict("gemm", name, **BIG) for name in ("h200-sxm+power_w=400", "h200-sxm+power_w=1400"))
    assert held.expected_s > free.expected_s
    assert held.power_w <= 400 < free.power_w < 1400


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("l2_byte=1", "l2_bytes"), ("l2_bytes=-4", "above 0"), ("l2_bytes=1", "at least a hundredth"), ("launch=3", "write launch=*1.2"),
        ("l2_bytes", "KEY=VALUE"), ("l2_bytes=*1.1+l2_B=3e7", "twice"), ("units=1.5", "whole number"), ("llc_bytes=*2", "nothing to multiply"),
        ("memory_bandwidth_b_s=*1e9", "multiplied by"), ("clock_for_peak_hz=3e9", "above the highest clock"), ("pcie_generation=9", "one of"),
    ],
)
def test_nonsense_is_one_line(edit: str, said: str) -> None:
    with pytest.raises(InputError, match=said.replace("*", r"\*")) as caught:
        machines.load(f"h200-sxm+{edit}")
    assert "\n" not in str(caught.value)


def test_an_edited_gpu_is_simulated_under_its_own_name() -> None:
    plain, edited = (simulated.find(name)[0] for name in ("h200-sxm", "h200-sxm+memory_bandwidth_b_s=*2"))
    assert (edited.machine, edited.key) == ("h200-sxm+memory_bandwidth_b_s=*2", "simulated-h200-sxm+memory_bandwidth_b_s=*2-0")
    case = plans.case("stream", {"size": "1 GiB"})
    ratio = simulated.open(plain).call_s(case) / simulated.open(edited).call_s(case)
    assert 1.6 < ratio < 2.01


def test_a_figure_by_another_name_leads_to_that_of_the_table() -> None:
    with pytest.raises(InputError, match="has no figure 'hbm_bandwidth'; did you mean 'memory_bandwidth_b_s'"):
        machines.load("h200-sxm+hbm_bandwidth=5e12")
