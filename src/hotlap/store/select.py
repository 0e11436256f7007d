"""Finding runs by what people say, and folding samples into results."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hotlap import work
from hotlap.errors import HotlapError, InputError, nearest
from hotlap.record import Case, Flag, Result, Samples, Status
from hotlap.store import bundle as bundles
from hotlap.store import paths
from hotlap.store.bundle import Bundle


def every(home: Path) -> list[Bundle]:
    """All runs that can be read, oldest first."""
    found = []
    for path in sorted(paths.runs(home).iterdir()):
        try:
            found.append(bundles.load(path))
        except HotlapError:
            continue
    return found


def runs(selector: str, home: Path) -> list[Bundle]:
    """The runs a selector names. Raises InputError when there is none."""
    if ("/" in selector or selector.endswith(".zip")) and "=" not in selector or Path(selector).exists():
        return [bundles.load(Path(selector))]
    known = every(home)
    if selector == "latest":
        found = known[-1:]
    elif "=" in selector:
        wanted = dict(part.partition("=")[::2] for part in selector.split(","))
        found = [b for b in known if all(b.run.labels.get(k) == v for k, v in wanted.items())]
    else:
        found = [b for b in known if b.run.id.startswith(selector)]
    if not found:
        raise InputError(f"no run is '{selector}'; {nearest(selector, [b.run.id for b in known[-5:]])}")
    return found


def results(bundle: Bundle, where: Mapping[str, str] = {}) -> list[Result]:
    """A result per case and device, in the plan's order."""
    groups: dict[tuple[str, str], list[Samples]] = {}
    for samples in bundle.samples:
        groups.setdefault((samples.case, samples.device), []).append(samples)
    target = bundle.run.target.partition(":")[0].partition("?")[0]
    found = []
    for device in bundle.run.devices:
        for case in bundle.run.plan.cases:
            if (case.id, device) in groups and _fits(case, device, where):
                found.append(fold(case, groups[case.id, device], target))
    return found


def _fits(case: Case, device: str, where: Mapping[str, str]) -> bool:
    facts = {"workload": case.workload, "device": device, "case": case.id, **{k: str(v) for k, v in case.params.items()}}
    return all(facts.get(name) == value for name, value in where.items())


def fold(case: Case, samples: Sequence[Samples], target: str) -> Result:
    """The rounds of one case on one device as one result."""
    spec = work.find(case.workload)
    measured = [s for s in samples if s.status == "measured" and s.seconds]
    status, reason = _status(samples, measured)
    own = case.workload == "command"
    seconds = [statistics.median(s.seconds) for s in measured]
    values = [v if own else _value(case, s, v) for s, v in zip(measured, seconds, strict=True)]
    return Result(
        case=case, device=samples[0].device, target=target, status=status, reason=reason, metric=spec.metric,
        unit=str(case.params["unit"]) if own else spec.unit, better=case.params["better"] if own else spec.better,  # type: ignore[arg-type]
        values=values, seconds=seconds, flags=_flags(samples), checks=[s.check for s in samples if s.check], rounds=list(samples),
    )


def _value(case: Case, samples: Samples, seconds: float) -> float:
    spec = work.find(case.workload)
    if seconds <= 0:
        return float("inf") if spec.better == "higher" else 0.0
    if spec.metric == "compute" and "operations" in samples.metrics:
        return samples.metrics["operations"] / seconds
    return spec.value(seconds, case.params)


def _status(samples: Sequence[Samples], measured: Sequence[Samples]) -> tuple[Status, str]:
    for status in ("invalid",):
        bad = [s for s in samples if s.status == status]
        if bad:
            return "invalid", f"{bad[0].reason} (in {len(bad)} of {len(samples)} rounds)"
    if measured:
        return "measured", ""
    worst = next((s for s in samples if s.status == "error"), samples[0])
    return worst.status, worst.reason


def _flags(samples: Sequence[Samples]) -> list[Flag]:
    found: dict[str, list[Flag]] = {}
    for one in samples:
        for flag in one.flags:
            found.setdefault(flag.name, []).append(flag)
    return [Flag(name=name, detail=f"in {len(flags)} of {len(samples)} rounds: {flags[-1].detail}") for name, flags in found.items()]
