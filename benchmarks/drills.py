"""Flipped bits and kills: is every one found, is none invented, is anything durable lost, and what do the checks cost?

    python benchmarks/drills.py [--target torch:cpu] [--flips 1000] [--clean 10000] [--kills 100] [--seed 7]

Bits are flipped at random positions of real products of every dtype that the target has, and go through the comparison that a stress
run makes; and, half of them once and half of them sticking, in operands, memory, transferred buffers and counters on the device. Clean
checks repeat the work. Kills end a stress run of the simulated card by SIGKILL and go on with it. Exits 1 when a figure is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from hotlap.core.measure import targets
from hotlap.stress import checksum
from hotlap.stress import units as stress
from hotlap.stress.record import FILE
from hotlap.stress.units import memory, products, strike, traffic

SMALL = (128, 128, 256)  # m, n, k: many products in little time


def flips(target: object, count: int, clean: int, seed: int) -> bool:
    """Prints a line per dtype; whether all were found and none invented."""
    rng = np.random.default_rng(seed)
    for table in (products.SIDES, products.SIDES_GPU, products.SLOW):
        table.update(dict.fromkeys(table, SMALL))
    made, _ = stress.units(target, "products", [], seed)  # type: ignore[arg-type]
    good = True
    for unit in made:
        assert isinstance(unit, products.ProductUnit)
        share, flips_, by_sum = -(-count // len(made)), 0, 0
        share_clean, invented = -(-clean // len(made)), 0
        for _ in range(share):
            c = unit.result().copy()
            words, size = c.view(f"u{c.dtype.itemsize}"), c.dtype.itemsize * 8
            row, column, bit = int(rng.integers(unit.m)), int(rng.integers(unit.n)), int(rng.integers(unit.width))
            words[row, column] ^= words.dtype.type(1 << (size - unit.width + bit))
            rows, columns = checksum.beyond(unit.sums, c)
            wrong = checksum.flips(unit.first, c, (rows, columns))
            exact = len(wrong) == 1 and (wrong[0].row, wrong[0].column) == (row, column) and wrong[0].bits == [size - unit.width + bit]
            flips_ += exact
            by_sum += bool(exact and wrong[0].by == "checksum")
        for _ in range(share_clean):
            unit.run()
            rows, columns = checksum.beyond(unit.sums, unit.result())
            invented += bool(len(rows) or len(columns) or unit.check())
        good &= flips_ == share and invented == 0
        covered = unit.facts()["covered"]
        print(f"{unit.name:<14} flips found {flips_} of {share} ({by_sum} by checksum; sure for {covered:.1%} of bit positions), "
              f"invented {invented} of {share_clean} clean checks", flush=True)  # fmt: skip
    return good


def places(target: object, count: int, clean: int, seed: int) -> bool:
    """The same for data on the device: prints a line per place; whether all were found where they are, and for what they are."""
    rng = np.random.default_rng(seed)
    memory.WORDS.update(dict.fromkeys(memory.WORDS, 1 << 14))
    good = True
    for kind, where in (("products", "operand"), ("memory", "memory"), ("link", "there"), ("atomics", "cells")):
        made, missing = stress.units(target, kind, ["fp32"] if kind == "products" else [], seed)  # type: ignore[arg-type]
        if not made:
            print(f"{kind:<14} not run: {'; '.join(missing.values())}")
            continue
        unit, mismatches, reported, invented, without = made[0], 0, 0, 0, 0
        for number in range(count):
            octet, bit = int(rng.integers(_size(unit))), int(rng.integers(8))
            release = strike.arm(unit, where, octet, bit, permanent=bool(number % 2))
            unit.run()
            all_wrong = unit.check()
            if kind == "products" and not all_wrong and unit.same():  # rounding swallowed it: no result has a wrong bit
                without += 1
                all_wrong = [w for w, _ in unit.mend()]
            wrong = [w for w in all_wrong if w.place.startswith(_place(unit, octet)) and w.bits == [octet % _element(unit) * 8 + bit]]
            mismatches += bool(wrong)
            reported += bool(wrong) and all(w.kind == ("permanent" if number % 2 else "transient") for w in wrong)
            release()
            if kind == "products":
                unit.mend()
        for _ in range(clean):
            unit.run()
            invented += bool(unit.check())
        good &= mismatches == reported == count and invented == 0
        print(f"{kind + ' ' + where:<17} flips found {mismatches} of {count}, kinds identified {reported}, "
              f"invented {invented} of {clean} clean checks", flush=True)  # fmt: skip
        if without:
            print(f"{'':<17} {without} of them changed no bit of any result, and were found by looking at the operand", flush=True)
    return good


def _element(unit: Any) -> int:
    return 1 if isinstance(unit, traffic.LinkTraffic) else 4


def _size(unit: Any) -> int:
    """Bytes of the buffer that is struck."""
    if isinstance(unit, products.ProductUnit):
        return 4 * unit.m * unit.k
    return (
        len(unit.data) if isinstance(unit, traffic.LinkTraffic) else 4 * (unit.cells if isinstance(unit, traffic.Atomics) else unit.words)
    )


def _place(unit: Any, octet: int) -> str:
    """How the place of a byte is to be named."""
    if isinstance(unit, products.ProductUnit):
        return f"operand A in device memory, row {octet // 4 // unit.k}, column {octet // 4 % unit.k}"
    if isinstance(unit, traffic.Atomics):
        return f"cell {octet // 4}"
    return f"byte 0x{octet:x} of the copy" if isinstance(unit, traffic.LinkTraffic) else f"address 0x{octet // 4 * 4:x}"


def cost(target: object, seed: int) -> bool:
    """Share of the time that checks take, per dtype and over all of them; medians, since other programs take the processors too."""
    made, _ = stress.units(target, "products", [], seed)  # type: ignore[arg-type]
    ran_s = checked_s = 0.0
    for unit in made:
        took: list[tuple[float, float]] = []
        for _ in range(15):
            began = time.perf_counter()
            unit.run()
            ran = time.perf_counter()
            unit.check()
            took.append((ran - began, time.perf_counter() - ran))
        work_s, check_s = (float(one) for one in np.median(took, axis=0))
        ran_s, checked_s = ran_s + work_s, checked_s + check_s
        print(f"{unit.name:<14} checks take {check_s / (work_s + check_s):.2%} of the time", flush=True)
    print(f"all            checks take {checked_s / (ran_s + checked_s):.2%} of the time")
    return checked_s / (ran_s + checked_s) < 0.05


def kills(count: int, seed: int) -> bool:
    """Whether every line that was in the log before a kill is in it after the next one."""
    chance, lost, bundles = random.Random(seed), 0, 0
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HOTLAP_HOME": home}
        begin = [sys.executable, "-m", "hotlap", "stress", "quick", "--target", "simulated:h200-sxm", "--for", "31 d"]
        command, before = begin, b""
        for _ in range(count):
            process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.9 + 0.8 * chance.random())
            process.send_signal(signal.SIGKILL)
            process.wait()
            folders = sorted((Path(home) / "runs").glob("2*"))
            if not folders:
                continue
            file = folders[-1] / FILE
            now = file.read_bytes() if file.exists() else b""
            lost += not now.startswith(before[: before.rfind(b"\n") + 1])
            bundles, before, command = bundles + 1, now, [*begin[:4], "--resume", folders[-1].name]
    print(f"killed {count} times, {bundles} with a bundle: lines lost after {lost}; {before.count(chr(10).encode())} lines at the end")
    return lost == 0 and before.count(b"\n") > 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="torch:cpu")
    for name, default in (("flips", 1000), ("clean", 10_000), ("kills", 100), ("seed", 7)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    spec = targets.parse(args.target)
    target = targets.open_device(spec, targets.find(spec)[0])
    good = cost(target, args.seed)
    good &= flips(target, args.flips, args.clean, args.seed)
    good &= places(target, args.flips, args.clean // 10, args.seed)
    good &= kills(args.kills, args.seed) if args.kills else True
    print("all figures reached" if good else "a figure was missed")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
