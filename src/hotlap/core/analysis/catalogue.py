"""Codes of drivers and links as data, what a run may have of each, and the findings that come of them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hotlap.core.errors import InputError
from hotlap.core.record import Finding

CATALOGUE = Path(__file__).parent / "catalogue.toml"
KEYS = {"meaning", "severity", "action", "source"}
WITHIN_BUDGET = "allowed"  # rule of a finding of what is within its budget


@dataclass(frozen=True)
class Budgets:
    """What a run may have of each before it fails; names as in `work.stress.ALLOWED`. That of link errors and of corrected memory errors
    is Hotlap's choice: no vendor gives one."""

    errors: float = 0.0
    ecc_corrected: float = 100.0
    ecc_uncorrected: float = 0.0
    remapped_rows: float = 0.0
    pcie_errors: float = 1000.0
    nvlink_errors: float = 100.0
    throttle: float = 0.05  # share of the time, for each cause but the power limit
    slope: float = 0.05  # loss of throughput over the run


def catalogue(path: Path | None = None) -> dict[str, dict[str, dict[str, str]]]:
    """Xid, ECC, throttle and link codes: meaning, severity, action, source. A user's file adds to it and overrides. Raises InputError."""
    document = tomllib.loads(CATALOGUE.read_text("utf-8"))
    if path is not None:
        try:
            own = tomllib.loads(path.read_text("utf-8"))
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"the catalogue '{path}' cannot be read: {error}") from None
        for group, codes in own.items():
            if group not in document or not isinstance(codes, dict):
                raise InputError(f"{path}: there is no group '{group}'; valid: {', '.join(sorted(document))}")
            for code, entry in codes.items():
                if not isinstance(entry, dict) or set(entry) - KEYS or entry.get("severity", "error") not in ("info", "warning", "error"):
                    raise InputError(f"{path}: [{group}.{code}] takes {', '.join(sorted(KEYS))}; severity is info, warning or error")
                document[group][code] = {**document[group].get(code, {}), **entry}
    return document


class Findings:
    """Causes in the making: `failed` and `open` are those that decide."""

    def __init__(self, codes: Mapping[str, dict[str, dict[str, str]]]) -> None:
        self.codes, self.findings, self.failed, self.open = codes, list[tuple[str, Finding]](), list[str](), list[str]()

    def add(self, rule: str, detail: str, level: Literal["fail", "open", "note"] = "fail", action: str = "", where: str = "") -> None:
        """`where`: the sensor or part that it is about, where it is about one."""
        cause = f"{rule}: {where}" if where else rule
        severity: Literal["info", "warning", "error"] = "error" if level == "fail" else "warning" if level == "open" else "info"
        self.findings.append((cause, Finding(title=cause, detail=detail, severity=severity, action=action, rule=rule, where=where)))
        if level == "fail":
            self.failed.append(cause)
        if level == "open":
            self.open.append(cause)

    def allow(self, detail: str) -> None:
        """What happened and is within its budget: the verdict says so, and does not change."""
        self.add(WITHIN_BUDGET, detail, "note")

    def coded(self, group: str, code: str, cause: str, detail: str) -> None:
        entry = self.codes[group].get(
            code, {"meaning": "not in the catalogue", "severity": "error", "action": "see the driver's log", "source": ""}
        )
        level: Literal["fail", "note"] = "fail" if entry["severity"] == "error" else "note"
        self.add(cause, f"{detail}: {entry['meaning']}", level, entry["action"])
