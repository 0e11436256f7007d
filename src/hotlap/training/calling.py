"""Runs `module:function` as a program: `python -m hotlap.training.calling module:function [arguments]`."""

from __future__ import annotations

import importlib
import sys


def main(argv: list[str]) -> None:
    """Calls it without arguments; what follows is `sys.argv` for it, as of a script."""
    module, _, function = argv[0].partition(":")
    sys.argv = argv
    called = importlib.import_module(module)
    for name in function.split("."):
        called = getattr(called, name)
    called()  # type: ignore[operator]


if __name__ == "__main__":
    main(sys.argv[1:])
