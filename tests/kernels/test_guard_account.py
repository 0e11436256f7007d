"""What the session makes of the account of a process with a user's kernel: late messages are no offence, samples that hide time are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hotlap.core.measure.protocol import Sampling
from hotlap.core.record import Case, Samples
from hotlap.kernels import implementer
from hotlap.kernels.guard.account import GuardAccount

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGSTOP is POSIX")

WORKER = """#!{python}
import os, signal, sys, time
import msgspec
from hotlap.core.measure.protocol import CaseDone, RoundDone, Sampling
from hotlap.core.record import Samples

def say(message):
    os.write(1, msgspec.json.encode(message) + b"\\n")

def session(signal_number):
    os.kill(os.getppid(), signal_number)

sys.stdin.buffer.readline()
now = time.perf_counter
{sampling}
say(CaseDone(samples=Samples(case="c", device="d", round=0, status="measured", values=[1e-3])))
sys.stdin.buffer.readline()
say(RoundDone(seconds=1.0))
"""

SESSION = """
import sys, threading
from hotlap.core.measure.process import WorkerProcess
from hotlap.core.measure.protocol import CaseDone, Job
from hotlap.core.record import MeasureOptions
from hotlap.kernels.guard.account import GuardAccount

sys.executable = sys.argv[1]
ACCOUNT = GuardAccount() if sys.argv[2] == "kernel" else None
job = Job(spec="", device=0, device_key="d", round=0, cases=[], options=MeasureOptions(), seed=1)
with WorkerProcess(job, 60.0, threading.Event(), ACCOUNT) as worker:
    for message in worker.messages():
        if isinstance(message, CaseDone):
            print(message.samples.status, message.samples.reason)
            worker.go_on()
"""


def said(folder: Path, sampling: str, of: str = "kernel") -> str:
    """What a session in a process of its own says of a worker that samples so."""
    worker = folder / "worker"
    worker.write_text(WORKER.format(python=sys.executable, sampling=sampling))
    worker.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", SESSION, str(worker), of], capture_output=True, text=True, timeout=120, check=True)
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


def test_the_account_of_workloads_of_ours_is_believed(tmp_path: Path) -> None:
    assert said(tmp_path, SWAPPED, "ours") == "measured"


@pytest.mark.parametrize(
    ("ends", "account_s", "state"),
    [
        ((10.0, 11.0, 0.0), 0.7, "measured"), ((10.0, 11.0, 0.0), 0.69, "invalid"),  # 75 % of a second, less 50 ms
        ((10.0, 10.125, 11.5), 0.7, "measured"), ((10.0, 10.125, 11.5), 0.69, "invalid"),  # by what the session saw itself
        ((10.0, 10.0625, 0.0), 1e-9, "measured"), ((10.0, 9.0, 0.0), 1e-9, "measured"),
    ],
)  # fmt: skip
def test_how_much_of_the_time_must_be_in_the_account(ends: tuple[float, float, float], account_s: float, state: str) -> None:
    """First message sent, last message sent, and until when nothing had come; the first one came at 10.5."""
    account, blank = GuardAccount(), Samples(case="c", device="d", round=0, status="measured", values=[1e-3])
    account.sampling(Sampling(sent_s=ends[0]), 10.5, 0.0)
    account.sampling(Sampling(timed_s=account_s / 2, between_s=account_s / 2, sent_s=ends[1]), 99.0, ends[2])
    assert account.judged(blank).status == state
    assert account.judged(blank).status == "measured"  # the next case has an account of its own


def test_an_end_without_a_beginning_says_nothing() -> None:
    account, blank = GuardAccount(), Samples(case="c", device="d", round=0, status="measured", values=[1e-3])
    account.sampling(Sampling(timed_s=1e-9, sent_s=50.0), 50.0, 40.0)
    assert account.judged(blank) is blank
    failed = Samples(case="c", device="d", round=0, status="error", reason="no luck")
    account.sampling(Sampling(sent_s=0.0), 0.0, 0.0)
    account.sampling(Sampling(timed_s=1e-9, sent_s=50.0), 50.0, 40.0)
    assert account.judged(failed) is failed


def test_which_processes_have_an_account() -> None:
    ours = Case(workload="launch", params={})
    assert implementer.account([ours]) is None
    assert isinstance(implementer.account([ours, Case(workload="kernel", params={"name": "x"})]), GuardAccount)
