"""Plans: TOML files that say what to measure and how long. `read` makes cases of them, `listing` shows them, `write` writes them."""

from __future__ import annotations

from hotlap.core.plan.listing import show
from hotlap.core.plan.measuring import of_cases, of_programs, override, within
from hotlap.core.plan.read import SCHEMA, builtin, case, check, load, of_workload
from hotlap.core.plan.write import text

__all__ = ["SCHEMA", "builtin", "case", "check", "load", "of_cases", "of_programs", "of_workload", "override", "show", "text", "within"]
