"""What the session makes of a worker's messages: late ones are no offence, samples that hide time are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGSTOP is POSIX")

WORKER = """#!{python}
import os, signal, sys, time
import msgspec
from hotlap.core.measure.protocol import Ended, Sampling, Took
from hotlap.core.record import Samples

def say(message):
    os.write(1, msgspec.json.encode(message) + b"\\n")

def session(signal_number):
    os.kill(os.getppid(), signal_number)

sys.stdin.buffer.readline()
now = time.perf_counter
{sampling}
say(Took(samples=Samples(case="c", device="d", round=0, status="measured", seconds=[1e-3])))
sys.stdin.buffer.readline()
say(Ended(seconds=1.0))
"""

SESSION = """
import sys, threading
from hotlap.core.measure.process import Round
from hotlap.core.measure.protocol import Job, Took
from hotlap.core.record import MeasureOptions

sys.executable = sys.argv[1]
job = Job(spec="", device=0, device_key="d", round=0, cases=[], options=MeasureOptions(), seed=1)
with Round(job, 60.0, threading.Event()) as worker:
    for message in worker.messages():
        if isinstance(message, Took):
            print(message.samples.status, message.samples.reason)
            worker.go_on()
"""


def said(folder: Path, sampling: str) -> str:
    """What a session in a process of its own says of a worker that samples so."""
    worker = folder / "worker"
    worker.write_text(WORKER.format(python=sys.executable, sampling=sampling))
    worker.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", SESSION, str(worker)], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.strip()


LATE_END = """
began = now()
say(Sampling(sent_s=began))
time.sleep(0.5)  # the session has it, or will be late for both
session(signal.SIGSTOP)
say(Sampling(timed_s=now() - began, sent_s=now()))
time.sleep(2.0)
session(signal.SIGCONT)
"""

LATE_BEGIN = """
session(signal.SIGSTOP)
began = now()
say(Sampling(sent_s=began))
time.sleep(1.0)
session(signal.SIGCONT)
time.sleep(1.0)
say(Sampling(timed_s=now() - began, sent_s=now()))
"""

SWAPPED = """
began = now()
say(Sampling(sent_s=began))
time.sleep(1.0)
say(Sampling(timed_s=(now() - began) / 10, sent_s=now()))
"""

SWAPPED_AND_LATE = """
session(signal.SIGSTOP)
began = now()
say(Sampling(sent_s=began))
time.sleep(1.0)
say(Sampling(timed_s=(now() - began) / 10, sent_s=now()))
session(signal.SIGCONT)
"""

FORGED = """
began = now()
say(Sampling(sent_s=began))
time.sleep(4.0)
say(Sampling(timed_s=0.2, sent_s=began + 0.2))
"""


@pytest.mark.parametrize("sampling", [LATE_END, LATE_BEGIN], ids=["end", "begin"])
def test_a_message_that_is_seconds_late_accuses_nobody(tmp_path: Path, sampling: str) -> None:
    assert said(tmp_path, sampling) == "measured"


@pytest.mark.parametrize("sampling", [SWAPPED, SWAPPED_AND_LATE, FORGED], ids=["swapped", "swapped, late", "forged times"])
def test_samples_that_account_for_a_tenth_of_the_time_are_invalid(tmp_path: Path, sampling: str) -> None:
    found = said(tmp_path, sampling)
    assert found.startswith("invalid sampling ")
    assert found.endswith("its timer was tampered with")
