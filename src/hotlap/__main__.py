"""`python -m hotlap` and the command `hotlap`."""

from __future__ import annotations

import sys

from hotlap.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
