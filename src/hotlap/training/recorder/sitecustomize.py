"""Runs at the start of every Python process of a measured program: begins to time its steps."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys


def _pass_on() -> None:
    """Runs the sitecustomize that this one stands before, as the only one of its name."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [one for one in sys.path if os.path.abspath(one or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module, own = importlib.util.module_from_spec(spec), sys.modules[__name__]
        sys.modules[__name__] = module
        try:
            spec.loader.exec_module(module)
        finally:
            sys.modules[__name__] = own


def _start() -> None:
    if os.environ.get("HOTLAP_TRAINING"):
        try:
            from hotlap.training.recorder import hooks
        except ImportError:  # another Python than Hotlap's: its steps are not timed
            return
        hooks.start()


if __name__ == "sitecustomize":
    _pass_on()
    _start()
