"""Coverage-guided fuzzing of the trace readers by atheris (pip install atheris; Python 3.11): it keeps what reaches new code.

    python tests/traces/guided.py MINUTES [FOLDER]

The first byte of an input chooses the format, the rest is the file. FOLDER keeps inputs that reached new code, and the next run
goes on from them; an input that breaks a promise stops the run and is kept as crash-….
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

# atheris 2.3 on Python 3.11 crashes in its own code in the loop of packed, which runs well without it.
with atheris.instrument_imports(include=["hotlap.traces"], exclude=["hotlap.traces.readers.packed"]):
    from hotlap.traces import opening  # noqa: F401  instrumented before anything else imports it
    from hotlap.traces.readers import kineto, memory, nsys, rocpd, rocprof, xplane  # noqa: F401

sys.path.insert(0, str(Path(__file__).parent))
import fuzzing

FOLDER = tempfile.mkdtemp(prefix="guided-")


def one(data: bytes) -> None:
    """Opens an input as a file of the chosen format and checks what was promised."""
    if len(data) < 2:
        return
    file, _ = fuzzing.sample(fuzzing.NAMES[data[0] % len(fuzzing.NAMES)])
    path = Path(FOLDER) / file
    path.write_bytes(data[1:])
    fuzzing.check(path, "breakdown" if data[0] & 128 else "all")


def main() -> None:
    minutes, corpus = float(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "guided")
    corpus.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(fuzzing.NAMES):
        (corpus / f"sample-{i}").write_bytes(bytes([i]) + fuzzing.sample(name)[1])
    options = [f"-max_total_time={round(60 * minutes)}", "-max_len=20000", "-rss_limit_mb=1500", "-timeout=20", f"-artifact_prefix={corpus}/"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
