"""How much chance a test takes: by default a tenth of the draws and 20 examples, with fixed seeds; all of them by `make nightly`.

Seeds are fixed, so a test does not fail now and then; what is stated about a rate must hold for other seeds too, so a bound that has room
for the scatter of all draws gets more of it for fewer.
"""

from __future__ import annotations

import math
import os

FULL = os.environ.get("HOTLAP_TEST_DRAWS") == "full"
FEW_EXAMPLES = 20


def draws(full: int) -> int:
    return full if FULL else max(full // 10, 1)


def examples(full: int) -> int:
    """Of Hypothesis; nightly they are others each time."""
    return full if FULL else min(full, FEW_EXAMPLES)


def room(rate: float, full: int) -> float:
    """What is to be added to a bound near this rate: three standard errors at `draws(full)` less three at `full`."""
    return 3 * math.sqrt(rate * (1 - rate)) * (1 / math.sqrt(draws(full)) - 1 / math.sqrt(full))
