"""Plans: TOML files that say what to measure and how long. `read` makes cases of them, `listing` shows them, `write` writes them."""

from __future__ import annotations

from hotlap.plan.listing import show
from hotlap.plan.measuring import of_cases, of_programs, override, within
from hotlap.plan.read import SCHEMA, builtin, case, check, load
from hotlap.plan.write import text

__all__ = ["SCHEMA", "builtin", "case", "check", "load", "of_cases", "of_programs", "override", "show", "text", "within"]
