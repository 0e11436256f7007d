"""Versions of libraries whose kernels were measured: times of another version may be off as those of a library nobody measured there."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

MEASURED: Mapping[str, tuple[str, ...]] = {  # versions whose times were fitted: ai-dynamo/aiconfigurator's collections
    "vllm": ("0.14.0", "0.22.0", "0.24.0"), "sglang": ("0.5.10", "0.5.14"), "trtllm": ("1.0.0", "1.3.0rc20"),
}  # fmt: skip
LIBRARIES = {**{name: name for name in MEASURED}, "tensorrt-llm": "trtllm", "tensorrt_llm": "trtllm"}  # as they are written
WIDER = "another version of the library: the interval is widened to what fits without the library missed"
_NAME = re.compile(r"(?P<library>[a-z]+(?:[-_]llm)?)[ /]+v?(?P<version>\d[\w.+-]*)(?:[ /].*)?")


@functools.lru_cache(maxsize=1024)
def other(name: str) -> str:
    """What is to be said of a kernel's name with a version that was never measured; "" of one that was, and of names without."""
    parsed = _NAME.fullmatch(" ".join(name.strip().lower().split()))
    library = LIBRARIES.get(parsed["library"]) if parsed else None
    if parsed is None or library is None or parsed["version"] in MEASURED[library]:
        return ""
    return f"{library} {parsed['version']} was never measured; fitted to {', '.join(MEASURED[library])}"
