"""What the model expects of a network's step: of a processor whose rates are known exactly its counts over them, of a GPU the machine
table's, and of what is not known the reason."""

from __future__ import annotations

import importlib.util
import json
import math
import os
from pathlib import Path

import msgspec
import pytest

import hotlap
from exact_processor import BYTES_S, CALL_S, FLOP_S, swept
from hotlap.cli import main
from hotlap.core.measure.targets import host
from hotlap.core.model import calibration_text, processor
from hotlap.core.record import Device
from hotlap.core.show.document import Document
from hotlap.core.store import calibrations
from hotlap.training import conventions, expected, expected_gap
from hotlap.training.expected_record import ExpectedPart, ExpectedStep
from hotlap.training.record import TrainingAsked

torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install torch")
CPU = Device(target="host", index=0, name="A processor", kind="cpu")
GPU = Device(target="cuda", index=0, name="NVIDIA H200", kind="gpu", machine="h200-sxm")
SMALL = {"layers": "2", "hidden": "64", "heads": "4", "kv_heads": "4", "inter": "96", "vocabulary": "256", "context": "32", "batch": "2"}


def asked(program: str = "llama-3-8b", **changed: object) -> TrainingAsked:
    return TrainingAsked(program=program, kind="network", parameters={**SMALL, **{name: str(value) for name, value in changed.items()}})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    calibrations.save(processor.NAME, calibration_text.write(swept()), tmp_path)
    return tmp_path


def test_of_an_exact_processor_it_is_the_counts_over_its_rates(home: Path) -> None:
    one = expected.of(asked(), CPU, home)
    network, batch, context = conventions.network_of("llama-3-8b", SMALL)
    assert one.seconds is not None
    products = one.named_s("products") + one.named_s("attention")
    flop = conventions.counted(network, context) * batch * context
    # `counted` leaves out the scores that attention makes again going back: of 7 products 1 of each pair
    assert flop / FLOP_S < products < 1.15 * flop / FLOP_S
    every, tensors = conventions.parameters(network), sum(expected.tensors(network).values())
    assert sum(size * count for size, count in expected.tensors(network).items()) == every
    assert one.section_s("optimiser") == pytest.approx(80.0 * every / BYTES_S + 10 * tensors * CALL_S, rel=1e-3)
    assert one.named_s("framework") == pytest.approx((one.calls + 9 * tensors) * CALL_S, rel=1e-3)
    assert sum(part.seconds for part in one.parts) == pytest.approx(one.seconds)
    assert one.low_s is not None
    assert one.high_s is not None
    assert one.low_s < one.seconds < one.high_s
    assert "2026-11-25" in one.words


def test_twice_the_batch_takes_twice_the_passes_and_the_same_update(home: Path) -> None:
    one, two = (expected.of(asked(), CPU, home, "", {"batch": str(batch)}) for batch in (2, 4))
    assert two.section_s("optimiser") == one.section_s("optimiser")
    work = [each.section_s("forward") - sum(part.seconds for part in each.parts if (part.section, part.name) == ("forward", "framework")) for each in (one, two)]
    assert work[1] == pytest.approx(2 * work[0], rel=0.02)  # tables are read in part again


def test_a_step_shorter_than_those_that_were_checked_says_so(home: Path) -> None:
    short = expected.of(asked(), CPU, home)
    assert short.words.endswith("unchecked: the model was checked on steps of 120 ms to 1.20 s, and this is shorter")
    assert "unchecked" in expected_gap.facts(short, None)[0]
    wide = expected.of(asked(hidden=1024, layers=3, heads=16, kv_heads=16, inter=4096, context=128), CPU, home)
    assert wide.seconds is not None
    assert expected.CHECKED_S[0] < wide.seconds < expected.CHECKED_S[1]
    assert "unchecked" not in wide.words


def test_tensors_too_large_to_be_kept_take_memory_anew_in_each_step(tmp_path: Path) -> None:
    calibrations.save(processor.NAME, calibration_text.write(swept(fresh_s=0.016)), tmp_path)
    small, large = (expected.of(asked(vocabulary=words), CPU, tmp_path) for words in (256, 131_072))
    assert small.named_s("fresh memory") == 0  # its logits are of 64 KiB
    table = 131_072 * 64 * 4  # 32 MiB, as are the logits of 64 tokens
    assert large.named_s("fresh memory") == pytest.approx((2 + 2 + 2 + 4) * table * 0.016 / 2**26, rel=1e-3)
    assert large.seconds is not None
    assert small.high_s is not None
    assert small.seconds is not None
    bare = expected.of(asked(), CPU, _bare(tmp_path))
    assert bare.high_s is not None
    assert small.high_s > bare.high_s  # perhaps all activations are taken anew


def _bare(folder: Path) -> Path:
    home = folder / "bare"
    calibrations.save(processor.NAME, calibration_text.write(swept()), home)
    return home


@pytest.mark.parametrize("program", ["gpt-2", "minilm-l6", "mixtral-8x7b", "qwen3-8b"])
def test_every_kind_of_transformer_has_an_expectation(home: Path, program: str) -> None:
    more = {"experts": 4, "topk": 2, "expert_inter": 48} if program == "mixtral-8x7b" else {}
    more |= {"positions": 64} if program == "gpt-2" else {}
    one = expected.of(asked(program, **more), CPU, home)
    assert one.seconds is not None, one.why
    assert {part.section for part in one.parts} == {"forward", "backward", "optimiser"}
    assert all(math.isfinite(part.seconds) and part.seconds > 0 for part in one.parts)
    assert (expected.EXPERTS in one.remarks) == bool(more.get("experts"))


def test_without_a_calibration_or_with_another_processor_s_nothing_is_expected_and_the_command_is_named(tmp_path: Path, home: Path) -> None:
    none = expected.of(asked(), CPU, tmp_path / "empty")
    assert (none.seconds, none.why, none.fix) == (None, "this processor is not calibrated", "hotlap model calibrate --target torch:cpu")
    other = expected.of(asked(), Device(target="host", index=0, name="Another", kind="cpu"), home)
    assert other.why == "the calibration is of another processor, A processor, and this is Another"
    assert expected_gap.facts(none, None) == ["expected none, because this processor is not calibrated; hotlap model calibrate --target torch:cpu"]


def test_a_gpu_takes_the_machine_table(tmp_path: Path) -> None:
    one = expected.of(asked(), GPU, tmp_path)
    assert one.seconds is not None, one.why
    assert (one.on, one.words, one.named_s("framework")) == ("NVIDIA H200 SXM 141 GB", "published figures", 0)
    assert {part.section for part in one.parts} == {"forward", "backward", "optimiser"}
    unknown = expected.of(asked(), Device(target="cuda", index=0, name="Unheard of", kind="gpu"), tmp_path)
    assert unknown.why == "Unheard of is not in the machine table"


def test_ranks_and_programs_say_why_nothing_is_expected(home: Path) -> None:
    assert "2 ranks share" in expected.of(msgspec.structs.replace(asked(), ranks=2), CPU, home).why
    assert "the shape of a program is not known" in expected.of(TrainingAsked(program="a.py", kind="script"), CPU, home).why


def test_what_differs_adds_up_and_is_said_largest_first() -> None:
    parts = [ExpectedPart(section="forward", name="products", seconds=0.02), ExpectedPart(section="backward", name="products", seconds=0.04)]
    step = ExpectedStep(seconds=0.06, low_s=0.05, high_s=0.08, parts=parts, on="x", remarks=["Python"])
    gap = expected_gap.of(step, 0.1, 0.09, 0.11, {"forward": 0.03, "backward": 0.06, "optimiser": 0.008})
    assert gap is not None
    assert (gap.answer, gap.ratio) == ("slower", pytest.approx(0.1 / 0.06))
    assert gap.gap_s == {name: pytest.approx(value) for name, value in {"forward": 0.01, "backward": 0.02, "optimiser": 0.008, "rest": 0.002}.items()}
    assert sum(gap.gap_s.values()) == pytest.approx(0.04)
    assert expected_gap.differs(gap) == "100 ms is 1.67 of it, above its interval: backward +20 ms, forward +10 ms, optimiser +8.0 ms, rest +2.0 ms; not in what is expected: Python"
    assert expected_gap.of(step, 0.06, None, None, {}).answer == "as expected"  # type: ignore[union-attr]
    wide = expected_gap.of(step, 0.2, 0.07, 0.3, {"forward": 0.03, "backward": 0.06, "optimiser": 0.008})
    assert wide is not None
    assert "3.33 of it, outside of its interval, but the measured interval [70" in expected_gap.differs(wide)
    assert wide.gap_s["rest"] >= 0
    assert expected_gap.of(step, 0.04, 0.03, 0.045, {}).answer == "faster"  # type: ignore[union-attr]


@torch
@pytest.mark.nightly("starts PyTorch")
def test_it_is_kept_printed_and_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(hotlap.__file__).parents[1])]))
    calibrations.save(processor.NAME, calibration_text.write(swept(host.describe().name)), tmp_path)
    widths = [f"{name}={value}" for name, value in SMALL.items() if name != "batch"]
    assert main(["training", "frontier", "llama-3-8b", *widths, "--batch", "1,2", "--steps", "8", "--processes", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    msgspec.convert(answer, Document, strict=True)
    points = answer["runs"][0]["frontier"]["points"]
    assert [point["expected"]["arm"] for point in points] == ["batch=1", "batch=2"]
    assert all(point["expected_throughput"] == pytest.approx(32 * point["value"] / point["expected"]["seconds"]) for point in points)
    page = tmp_path / "page.html"
    assert main(["report", "latest", "--out", str(page)]) == 0
    assert ">model<" in page.read_text()  # its curve
    assert main(["training", "run", "llama-3-8b", *widths, "--steps", "8", "--processes", "1"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert " expected " in out
    assert "by its kernels alone" in out
    assert " differs " in out
    assert main(["report", "latest", "--out", str(page)]) == 0
    assert "Differs" in page.read_text()
