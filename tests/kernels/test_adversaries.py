"""Every cheating kernel of `adversaries` is caught through the product itself, with a reason that names what was seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotlap.core.errors import HotlapError
from hotlap.core.measure import targets
from hotlap.core.measure.loop import CaseBudget, measure
from hotlap.core.record import Samples
from hotlap.kernels import checked as measuring
from hotlap.kernels import kept as kernels
from hotlap.kernels.own import describe
from loaded import ran

pytest.importorskip("torch")

WRONG = "wrong"  # a call of the timed loop, or one on fresh input in memory that the loop used
CAUGHT = {
    "cached": WRONG, "by_pointer": WRONG, "by_content": "results are remembered", "skipped_tail": WRONG, "thread": "",
    "zeros": WRONG, "narrow": "an output of bfloat16, where float32 is due", "narrow_inside": WRONG, "clock": "time.perf_counter was replaced",
    "harness": "TorchTarget.time was replaced", "event": "Event.elapsed_time was replaced", "lazy": "is no plain tensor",
    "returns_input": "lies in the memory of an input", "finds_reference": WRONG, "first_calls": WRONG, "seed": WRONG,
    "outside": "wrote outside the memory of 'x'", "overwrites": "changed its input 'x'", "call_count": WRONG, "rotation": WRONG,
    "kept_buffer": "", "half_batch": WRONG, "sleeps": "threads work outside",
}  # fmt: skip
ENDED = {"crash": "was ended by SIGSEGV", "hang": "did not answer"}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Samples]:
    try:
        targets.find(targets.parse("torch:cpu"))
    except HotlapError as error:
        pytest.skip(f"torch:cpu: {error}")
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOTLAP_HOME", str(home))
        described, files = measuring.described(Path(__file__).parent / "adversaries.py")
        kernel = kernels.keep(described, files, home)
        assert set(kernel.settings[0].choices) == {*CAUGHT, *ENDED, "honest", "leaks"}
        cases = {kernels.case(kernel, {"trick": trick}).id: trick for trick in kernel.settings[0].choices}
        made = [kernels.case(kernel, {"trick": trick}) for trick in cases.values()]
        ends = [case for case in made if cases[case.id] in ENDED]
        rest = [case for case in made if cases[case.id] not in (*ENDED, "leaks")]
        samples = [*measuring.checked(rest, "torch:cpu"), *measuring.checked(ends, "torch:cpu", limit_s=8.0)]
        return {cases[one.case]: one for one in samples}


@pytest.mark.parametrize("trick", CAUGHT)
def test_a_cheat_is_invalid_and_named(found: dict[str, Samples], trick: str) -> None:
    assert found[trick].status == "invalid", found[trick]
    assert found[trick].reason
    assert CAUGHT[trick] in found[trick].reason  # "": wrong results, and what made them wrong, whichever is seen first


@pytest.mark.parametrize("trick", ENDED)
def test_a_kernel_that_ends_or_stops_its_process_takes_only_itself(found: dict[str, Samples], trick: str) -> None:
    assert found[trick].status == "error"
    assert ENDED[trick] in found[trick].reason


def test_an_honest_kernel_passes_the_same_harness(found: dict[str, Samples]) -> None:
    honest = found["honest"]
    assert ran(honest), honest.reason
    assert honest.check is not None
    assert honest.check.passed
    assert honest.metrics["deterministic"] == 1.0
    assert not {notice.code for notice in honest.notices} & {"leak", "not_deterministic"}


def test_a_leak_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    path = Path(__file__).parent / "adversaries.py"
    kernel = kernels.keep(describe.describe(path), [path], tmp_path)
    target = targets.open_device(spec := targets.parse("torch:cpu"), targets.find(spec)[0])
    found = measure(target, kernels.case(kernel, {"trick": "leaks"}), CaseBudget(seconds=0.4, seed=1))
    assert ran(found), found.reason
    assert "leak" in {notice.code for notice in found.notices}
