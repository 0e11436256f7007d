"""What a specification may say, and the faults of a simulated GPU."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hotlap.core.errors import InputError, NotSupported
from hotlap.core.measure import targets
from hotlap.core.measure.targets import simulated
from hotlap.core.measure.targets.faults import Faults, never_came
from hotlap.core.work import find


@pytest.mark.parametrize(("options", "words"), [
    ("noise=0.01&noise=0.02", "the option 'noise' is given twice, as 0.01 and 0.02, in 'simulated:h200-sxm"),
    ("seed=7&seed=7", "'seed' is given twice"),
    ("slow=0.05@1.3&slow=0.05@3.1", "; give it once, as slow=0.05@1.3,3.1"),
    ("nodes=40&slow=0.05@3&slow=0.05@17", "; give it once, as slow=0.05@3.*,17.*"),
    ("nois=1", "no option 'nois'; did you mean 'noise'"),
    ("noise", "'noise' in 'simulated:h200-sxm.noise' is not key=value"),
    ("noise=5%", "'noise' cannot be '5%'; write it as in noise=0.01"),
    ("noise=0.01/min", "'noise' cannot be '0.01/min'"),
    ("seed=1.5", "'seed' cannot be '1.5'; write it as in seed=7"),
    ("count=1.5", "'count' cannot be '1.5'"),
    ("count=0", "'count' must be from 1 to 1024"),
    ("throttle=0.3@", "'throttle' cannot be at the time ''; write it as in throttle=0.3@60s"),
    ("throttle=0.3@8 m", "at the time '8 m' .did you mean '8 min'"),
    ("step=0.1@-5s", "'step' cannot be at the time '-5s'"),
    ("lost=-1", "'lost' cannot be at the time '-1'; write it as in lost=40s"),
    ("dead=", "no sensor ''; valid: clock_hz.sm"),
    ("dead=powr_w", "did you mean 'power_w'"),
    ("efficiency=0", "'efficiency' must be above 0"),
])
def test_wrong_options_are_refused(options: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        targets.find(targets.parse(f"simulated:h200-sxm?{options}"))


def test_options_are_read() -> None:
    faults = Faults.parse(targets.parse("simulated:h200-sxm?throttle=0.3@1 min&lost=@90s&drift=0.02/min&count=2&dead=power_w,fan").options)
    assert (faults.throttle.share, faults.throttle.at_s, faults.lost, faults.drift, faults.count) == (0.3, 60.0, 90.0, 0.02, 2)
    assert faults.dead == {"power_w", "fan"}


def test_a_specification_is_written_as_it_was_read() -> None:
    text = "simulated:h200-sxm?noise=0.01&seed=7"
    assert targets.parse(text).text == text


def test_faults_that_never_came_are_named() -> None:
    options = targets.parse("simulated:h200-sxm?throttle=0.3@20s&step=0.1@5s&lost=60s&noise=0.01").options
    assert [news.split(" never came")[0] for news in never_came(options, 12.0)] == ["the fault throttle=0.3@20s", "the fault lost=60s"]
    assert never_came(options, 60.0) == []


def test_devices_of_a_fleet_differ_and_some_are_slow() -> None:
    faults = Faults.parse({"count": "9", "spread": "0.002", "slow": "0.03@2,5", "seed": "4"})
    well = [faults.of_device(n) for n in range(9) if n not in (2, 5)]
    assert 0.001 < max(well) / min(well) - 1 < 0.02
    assert min(faults.of_device(n) for n in (2, 5)) > 1.02
    for text in ("0.03", "0.03@x", "@2", "0.03@-1"):
        with pytest.raises(InputError, match="write it as in slow="):
            Faults.parse({"slow": text})


def test_a_simulated_gpu_runs_no_kernel_of_a_user() -> None:
    """It plays workloads from a model: a kernel that is wrong, or does not compile, would have been right and fast."""
    (device,) = simulated.find("h200-sxm", {})
    target = simulated.open(device, {})
    case = find("rowwise").case({"op": "rmsnorm"})
    target.prepare(case)
    with pytest.raises(NotSupported, match="a simulated GPU runs no code, so not the kernel mine"):
        target.prepare(replace(case, implementation="mine"))
