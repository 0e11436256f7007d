"""What PoCL's linker asks for on a machine without a compiler.

PoCL links every kernel with `-lgcc -lgcc_s -lc`. The files by which a linker finds these come with a compiler's packages
(libc6-dev, libgcc-dev), not with binutils; without them the process is aborted at the first kernel. A kernel takes nothing from
them that the process has not loaded already, so empty archives of the same names, the folder `link`, serve as well.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "link"
PLACES = {  # name: where linkers of Debian, Fedora and their kin look
    "libc": ("usr/lib/*/libc.so", "usr/lib64/libc.so", "usr/lib/libc.so", "lib/*/libc.so"),
    "libgcc": ("usr/lib/gcc*/*/*/libgcc.a", "usr/lib64/gcc/*/*/libgcc.a"),
    "libgcc_s": ("usr/lib/gcc*/*/*/libgcc_s.so", "usr/lib64/gcc/*/*/libgcc_s.so", "usr/lib/libgcc_s.so", "usr/lib64/libgcc_s.so"),
}


def missing(root: Path = Path("/")) -> list[str]:
    """The libraries that a linker on this system would not find."""
    return [name for name, places in PLACES.items() if not any(any(root.glob(place)) for place in places)]


def supply() -> None:
    """Puts the empty archives on the path of PoCL's linker, if the system lacks any of the libraries."""
    before = os.environ.get("LIBRARY_PATH", "")
    if sys.platform == "linux" and str(FOLDER) not in before.split(":") and missing():
        os.environ["LIBRARY_PATH"] = f"{before}:{FOLDER}" if before else str(FOLDER)
