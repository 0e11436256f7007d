"""A sweep teaches what the machine is: factors are found again, doubt keeps them at 1, and files say what is wrong with them."""

from __future__ import annotations

import numpy as np
import pytest

from hotlap.core.errors import InputError, SchemaError
from hotlap.core.model import calibration, calibration_text, chips, machines, sweep
from hotlap.core.model.calibration import Calibration, CalibrationSweep, Factor, Learnt
from hotlap.core.model.kernels import gemm
from hotlap.core.model.predict import predict
from hotlap.core.record import Device

SHAPES = {
    "m": np.array([16, 128, 1, 32, 256, 1024, 4096, 8192, 16, 2048.0]), "n": np.array([256, 256, 8192, 8192, 4096, 4096, 8192, 8192, 512, 2048.0]),
    "k": np.array([256, 256, 8192, 8192, 4096, 4096, 8192, 8192, 512, 2048.0]),
}  # fmt: skip
TYPES = np.full(10, "bf16")
ONE = Factor(1.0, 1.0, 1.0)


def parts_of(machine: str = "h200-sxm") -> dict[str, np.ndarray]:
    return dict(gemm.estimate({**SHAPES, "dtype": "bf16"}, chips.chip(machines.load(machine), "max")).parts)


def made(arithmetic: float, memory: float, call_s: float) -> tuple[dict[str, np.ndarray], np.ndarray]:
    parts = parts_of()
    a = sum(v for n, v in parts.items() if n in calibration.ARITHMETIC)
    m = sum(v for n, v in parts.items() if n in calibration.MEMORY)
    rest = sum(v for n, v in parts.items() if n not in (*calibration.ARITHMETIC, *calibration.MEMORY))
    return parts, np.asarray(arithmetic * a + memory * m + rest + call_s)


def kept(learnt: Learnt, target: str = "cuda") -> Calibration:
    return Calibration("h200-sxm", "GPU-1", 'a "GPU"', "driver 1", target, "2026-01-02", "r1", {"gemm": learnt}, {"launch single": Factor(3e-6, 2e-6, 4e-6)})


def test_factors_and_the_cost_of_a_call_are_found_again() -> None:
    parts, seconds = made(1.12, 0.94, 1.5e-6)
    found = calibration.learn(CalibrationSweep(parts, TYPES, seconds))
    assert found.dtypes["bf16"].value == pytest.approx(1.12, rel=0.03)
    assert found.memory.value == pytest.approx(0.94, rel=0.05)
    assert found.call_s.value == pytest.approx(1.5e-6, abs=0.4e-6)
    assert found.after < 0.02 < found.before
    assert found.dtypes["bf16"].low < 1.12 < found.dtypes["bf16"].high


def test_one_wild_case_hardly_counts() -> None:
    parts, seconds = made(1.1, 1.0, 0.0)
    clean = calibration.learn(CalibrationSweep(parts, TYPES, seconds))
    seconds[6] *= 5
    wild = calibration.learn(CalibrationSweep(parts, TYPES, seconds))
    assert wild.dtypes["bf16"].value == pytest.approx(clean.dtypes["bf16"].value, rel=0.04)


def test_what_a_sweep_does_not_show_stays_as_it_is() -> None:
    parts, _ = made(1.0, 1.0, 0.0)
    small = np.array([0, 1, 8, 0])  # calls of launch cost alone
    found = calibration.learn(CalibrationSweep({n: v[small] for n, v in parts.items()}, TYPES[small], sum(v[small] for v in parts.values()) * 1.3))
    assert found.arithmetic.value == pytest.approx(1.0, abs=0.05)
    assert found.arithmetic.high / found.arithmetic.low > 1.3
    assert found.call_s.value > 0


def test_the_hosts_time_is_scaled_and_overlaps_again() -> None:
    parts = {"matrix unit": np.array([5e-6, 20e-6, 40e-6, 300e-6, 10e-6]), "launch": np.full(5, 2e-6)}
    device = parts["matrix unit"] + parts["launch"]
    parts["host"] = (device**8 + 90e-6**8) ** (1 / 8) - device
    found = calibration.learn(CalibrationSweep(parts, np.full(5, "fp8_block"), (device**8 + 72e-6**8) ** (1 / 8)))
    assert found.host.value == pytest.approx(0.8, rel=0.03)
    again = calibration.scaled(found, parts, "fp8_block")
    assert sum(again.values())[3] == pytest.approx(302e-6, rel=0.05)
    assert sum(again.values())[0] == pytest.approx(72e-6, rel=0.03)


def test_predictions_take_it_keep_to_the_bound_and_say_so() -> None:
    parts, seconds = made(1.12, 1.0, 0.0)
    with_sweep = kept(calibration.learn(CalibrationSweep(parts, TYPES, seconds)))
    case = {"m": 4096, "n": 6144, "k": 4096, "dtype": "bf16"}
    before, after = predict("gemm", "h200-sxm", **case), predict("gemm", "h200-sxm", calibration=with_sweep, **case)
    assert 1.05 < after.expected_s / before.expected_s < 1.15
    assert sum(after.parts.values()) == pytest.approx(after.expected_s)
    assert after.calibration_level == "published figures and a sweep on this machine (2026-01-02)"
    assert after.low_s < after.expected_s < after.high_s
    quick = Learnt(9, *(Factor(0.01, 0.01, 0.01) for _ in range(3)), Factor(0.0, 0.0, 0.0))
    fast = predict("gemm", "h200-sxm", calibration=kept(quick), m=[4096, 8192], n=8192, k=8192, dtype="bf16")
    assert np.all(fast.expected_s >= fast.bound_s)
    assert np.all(fast.low_s >= fast.bound_s)
    attention = {"query": 1, "kv": 8192, "batch": 32, "heads": 64, "kv_heads": 8}
    assert predict("attention", "h200-sxm", calibration=with_sweep, **attention) == predict("attention", "h200-sxm", **attention)


def test_a_file_gives_back_what_was_written() -> None:
    parts, seconds = made(1.12, 1.0, 0.0)
    one = kept(calibration.learn(CalibrationSweep(parts, TYPES, seconds)))
    text = calibration_text.write(one)
    again = calibration_text.read(text, "x.toml")
    assert again.families["gemm"].dtypes["bf16"].value == pytest.approx(one.families["gemm"].dtypes["bf16"].value, rel=1e-4)
    assert (again.name, again.facts, calibration_text.write(again)) == (one.name, one.facts, text)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("schema = 1", "schema = 2", "schema 2"), ("schema = 1", "schema = ", "Invalid"), ("memory = {", "menory = {", "'memory' is missing"),
        ("value = 1.1", "value = -1.1", "above 0"), ("value = 1.1", 'value = "x"', "finite number"), ("value = 1.1", "value = nan, nix = 1.1", "finite number"),
        ("high = ", "high = 1e-9, x = ", "between low and high"), ("[family.gemm]", "[families.gemm]", "'family' is missing"), ('run = "r1"', "run = 3", "must be a string"),
    ],
)  # fmt: skip
def test_a_damaged_file_says_what_is_wrong(old: str, new: str, words: str) -> None:
    text = calibration_text.write(kept(Learnt(9, Factor(1.1, 1.0, 1.2), ONE, ONE, Factor(0.0, -1e-6, 1e-6))))
    assert old in text
    with pytest.raises(SchemaError, match=r"x\.toml: not a calibration") as error:
        calibration_text.read(text.replace(old, new, 1), "x.toml")
    assert words in str(error.value)


def test_too_few_cases_teach_nothing() -> None:
    with pytest.raises(InputError, match="2 of gemm; at least 4"):
        calibration.enough({"gemm": [1, 2]})
    assert calibration.enough({"gemm": [1, 2], "streaming": [1, 2, 3, 4]}) == ["streaming"]


def test_a_machine_without_an_entry_says_why_not() -> None:
    with pytest.raises(InputError, match="not in the machine table"):
        sweep.machine_of(None, Device(target="cuda", index=0, name="Unheard of", kind="gpu"))
