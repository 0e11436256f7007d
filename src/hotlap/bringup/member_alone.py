"""What a node runs by itself: hashing and copying, with results that are known. Standard library only, of Python 3.9 or later.

Rates are by processor time, so that other programs of the machine change them little; `throttled_s` is what the kernel counts: of a control
group's quota, and of a processor that is too hot.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import sys
import time

BLOCK = bytes(range(256)) * 4096  # 1 MiB
KNOWN = "fbbab289f7f94b25736c58be46a994c441fd02552cc6022352e3d86d2fab7c83"  # its SHA-256
HASHED, COPIED = 48, 192  # blocks of a pass


def throttled_s() -> float:
    """By the kernel's counters since they began; 0 where it has none."""
    total = sum(_number(path) for path in glob.glob("/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_total_time_ms")) / 1e3
    for line in _text("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            total += _stat("/sys/fs/cgroup/cpu" + path, "throttled_time", 1e-9)
        elif not controllers:
            total += _stat("/sys/fs/cgroup" + path, "throttled_usec", 1e-6)
    return total


def _stat(folder: str, key: str, scale: float) -> float:
    for line in _text(os.path.join(folder, "cpu.stat")).splitlines():
        name, _, value = line.partition(" ")
        if name == key:
            return float(value) * scale
    return 0.0


def _number(path: str) -> float:
    return float(_text(path).strip() or 0)


def _text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read(1 << 16)
    except (OSError, ValueError):
        return ""


def passed() -> tuple[dict[str, float], int, int]:
    """Bytes per second of processor time by metric; results that are wrong, and that were looked at."""
    wrong, began_s = 0, time.process_time()
    for _ in range(HASHED):
        wrong += hashlib.sha256(BLOCK).hexdigest() != KNOWN
    hashed_s, began_s = time.process_time() - began_s, time.process_time()
    copies = [bytearray(BLOCK) for _ in range(8)]
    for number in range(COPIED):
        copies[number % 8][:] = copies[(number + 1) % 8]
    copied_s = time.process_time() - began_s
    wrong += sum(copy != BLOCK for copy in copies)
    rates = {"sha256": HASHED * len(BLOCK) / max(hashed_s, 1e-9), "copy": COPIED * len(BLOCK) / max(copied_s, 1e-9)}
    return rates, wrong, HASHED + len(copies)


def main(seconds: float) -> None:
    """Passes for so long, at least one; a line of JSON at the end."""
    before_s, began_s = throttled_s(), time.monotonic()
    rates: dict[str, list[float]] = {}
    wrong = checked = 0
    while True:
        of_pass, bad, count = passed()
        wrong, checked = wrong + bad, checked + count
        for name, rate in of_pass.items():
            rates.setdefault(name, []).append(rate)
        ran_s = time.monotonic() - began_s
        if ran_s >= seconds:
            break
    middle = {name: sorted(values)[len(values) // 2] for name, values in rates.items()}
    counted_s = throttled_s() - before_s
    print(json.dumps({"rates": middle, "wrong": wrong, "checked": checked, "throttled_s": counted_s, "seconds": ran_s}), flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0)
