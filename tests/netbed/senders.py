"""Measures a bed: what TCP carries from one node to another, by senders of the standard library that run in its nodes."""

from __future__ import annotations

import subprocess
import sys

from tests.netbed.bed import Bed
from tests.netbed.spec import FRAME

PORT = 5201
_RECEIVE = """
import socket, sys, time
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("listens", flush=True)
stream = server.accept()[0]
stream.settimeout(30)
first, total = None, 0
while data := stream.recv(1 << 16):
    now = time.perf_counter()
    if first is None:
        first = now
    else:
        total += len(data)
    last = now
print(total * 8 / (last - first) / 1e6)
"""
_SEND = """
import socket, sys, time
stream = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=30)
left, block = int(sys.argv[3]), bytes(1 << 16)
while left > 0:
    stream.sendall(block[: min(left, 1 << 16)])
    left -= 1 << 16
"""


def rate_mbps(bed: Bed, sender: str, receiver: str, size: int = 4_000_000, port: int = PORT) -> float:
    """Mbit/s that the receiver sees of `size` bytes, from the first that it read to the last."""
    python = sys.executable
    taking = bed.popen([python, "-S", "-c", _RECEIVE, bed.spec.address(receiver), str(port)], receiver, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert taking.stdout
    if taking.stdout.readline() != "listens\n":
        raise RuntimeError(taking.communicate()[1])
    sent = bed.run([python, "-S", "-c", _SEND, bed.spec.address(receiver), str(port), str(size)], sender)
    if sent.returncode:
        taking.kill()
        taking.communicate()
        raise RuntimeError(f"{sender} to {receiver}: {sent.stderr.strip().splitlines()[-1]}")
    text, wrong = taking.communicate()
    if taking.returncode:
        raise RuntimeError(wrong)
    return float(text)


def shaped_mbps(mbps: float) -> float:
    """What TCP hands over of a shaped rate."""
    return mbps * FRAME
