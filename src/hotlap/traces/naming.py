"""Names of kernels, short enough to read."""

from __future__ import annotations

import re

_FUNCTOR = re.compile(r"(\w*(?:Functor|functor|Op|_op|kernel_impl|_kernel_cuda|lambda)\w*)")
_WRAPPER = re.compile(r"^(?:Kernel2?|device_kernel|kernel)$")  # of CUTLASS and others: the name that tells is the first parameter
_PLAIN = ("void ", "(anonymous namespace)::", "at::native::", "at_cuda_detail::", "cub::", "std::")


def short(name: str) -> str:
    """A C++ signature without namespaces, arguments and template parameters, save the functor that tells kernels apart."""
    text = name
    for word in _PLAIN:
        text = text.replace(word, "")
    base, _, rest = text.partition("<")
    base = base.split("(")[0].strip().rsplit("::", 1)[-1] or text
    if not rest or base == text:
        return text.split("(")[0].strip() or name
    if _WRAPPER.match(base) and (inner := re.match(r"\s*([\w:]+)", rest)):
        return inner.group(1).rsplit("::", 1)[-1] or base
    found = next((one for one in _FUNCTOR.findall(rest) if one not in base), "")
    return f"{base}<{found}>" if found else base
