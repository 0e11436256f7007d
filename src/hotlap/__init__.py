"""Hotlap measures what an accelerator really delivers, and how far that is from what the hardware allows."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.api import Run, Timeline, changes, compare, findings, load, measure, predict, run
    from hotlap.traces.marking import marker
    from hotlap.training.stepping import MarkedSteps as steps  # noqa: N813 - called as a function

__version__ = "0.2.0"
__all__ = [
    "Run", "Timeline", "__version__", "changes", "compare", "findings", "load", "marker", "measure", "predict", "run", "step", "steps",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Public names are looked up on first use, so that `import hotlap` and `hotlap --help` stay fast."""
    if name in __all__:
        import importlib

        if name == "marker":  # used in loops of programs: found once, and without the rest of the interface
            globals()[name] = importlib.import_module("hotlap.traces.marking").marker
            return globals()[name]
        if name == "steps":
            globals()[name] = importlib.import_module("hotlap.training.stepping").MarkedSteps
            return globals()[name]

        return getattr(importlib.import_module("hotlap.api"), name)
    raise AttributeError(f"module 'hotlap' has no attribute '{name}'")


def step() -> None:
    """A step of the program has ended: `hotlap trace capture` and `training run` count it. Without them it costs a look into a table."""
    if (recorder := sys.modules.get("hotlap_recorder")) is not None:
        recorder.step()


def __dir__() -> list[str]:
    return __all__


class _Package(ModuleType):
    """Keeps `hotlap.measure` the function: importing the package of that name would set it to the package."""

    @property
    def measure(self) -> Any:
        return __getattr__("measure")

    @measure.setter
    def measure(self, _package: ModuleType) -> None:
        return


sys.modules[__name__].__class__ = _Package
