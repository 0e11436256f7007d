"""A transfer by TCP: what runs on a member in each round. It is sent there, so it needs the standard library only, of Python 3.9 or later.

The receiver's clock and bytes count. The first quarter of the time is cut: a shaped link passes its bucket at once (docs/testbed.md).
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
import time
from typing import Any

BLOCK = 1 << 16
PATIENCE_S = 10.0  # for the other side to be there
CUT = 0.25  # of the time
LEAD_S = 0.4  # from the order until all pairs begin at once


def send(address: str, port: int, time_s: float, at_s: float = 0.0) -> dict[str, Any]:
    """From a moment of this machine's clock, so that all pairs share what they share; until the receiver has seen enough."""
    deadline_s, stream = time.monotonic() + PATIENCE_S, None
    while stream is None:
        try:
            stream = socket.create_connection((address, port), timeout=PATIENCE_S)
        except OSError as error:
            if time.monotonic() > deadline_s:
                return {"why": f"{address} cannot be reached: {error.strerror or error}"}
            time.sleep(0.02)
    block, deadline_s = bytes(BLOCK), time.monotonic() + time_s + PATIENCE_S
    with stream:
        stream.settimeout(PATIENCE_S)
        time.sleep(min(max(at_s - time.time(), 0.0), LEAD_S))
        try:
            while time.monotonic() < deadline_s:
                stream.sendall(block)
        except OSError:
            pass
    return {"why": ""}


def receive(address: str, port: int, time_s: float) -> dict[str, Any]:
    """`rate`: bytes per second of what came after the cut; 0 where nothing did."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.create_server((address, port), family=family) as server:
            server.settimeout(PATIENCE_S)
            stream = server.accept()[0]
    except OSError as error:
        return {"rate": 0.0, "why": f"nobody came: {error.strerror or error}"}
    with stream:
        stream.settimeout(PATIENCE_S)
        return _counted(stream, time_s)


def _counted(stream: socket.socket, time_s: float) -> dict[str, Any]:
    buffer, began_s, counted_s, now, total = bytearray(BLOCK), None, None, 0.0, 0
    try:
        while True:
            count = stream.recv_into(buffer)
            now = time.perf_counter()
            if not count:
                break
            began_s = now if began_s is None else began_s
            if counted_s is not None:
                total += count
            elif now - began_s >= CUT * time_s:
                counted_s = now
            if now - began_s >= time_s:
                break
    except OSError as error:
        return {"rate": 0.0, "why": f"it broke off: {error.strerror or error}"}
    seconds = now - (counted_s or now)
    return {"rate": total / seconds if seconds > 0 else 0.0, "bytes": total, "seconds": seconds, "why": "" if total else "nothing came"}


def link(address: str) -> dict[str, Any]:
    """What `member_link`, beside this file, says of an address; {} where it is not there."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    try:
        known: dict[str, Any] = importlib.import_module("member_link").facts(address)
    except (ImportError, OSError):
        return {}
    return known


def main() -> None:
    """What HOTLAP_PAIR asks for: `do`, `address`, `port`, `time_s`, `at_s`, `own` (the member's address)."""
    if "HOTLAP_PAIR" not in os.environ:
        sys.exit("these rounds belong to hotlap cluster isolate: its --resume goes on")
    order = json.loads(os.environ["HOTLAP_PAIR"])
    if order["do"] == "rest":
        return
    address, port, time_s = order["address"], order["port"], order["time_s"]
    answer = send(address, port, time_s, order["at_s"]) if order["do"] == "send" else receive(address, port, time_s)
    print(json.dumps(dict(answer, link=link(order.get("own", address)))), flush=True)


if __name__ == "__main__":
    main()
