"""Sizes of covering designs beside the best published ones, and the time they take. Every design is counted out exactly.

    python benchmarks/covering.py [--json]

Published sizes are those of Colbourn's covering array tables, state of November 2024, the last before they went off line; kept in the
R package CAs (U. Grömping, github.com/ugroempi/CAs, colbournBigFrame) and as text in github.com/chrispbsmolen/ca-tools
(colbourn_catalogue.csv), where these were read. The tables name for each size who found it, and give no array; 380 rows for 10 columns of
6 levels at strength 3 are told there as found by Torres-Jimenez. The smallest such array found in the open has 393 rows (Colbourn, Kéri,
Rivas Soriano and Schlage-Puchta, Discrete Applied Mathematics 158, 2010; in the data of CAs). "The fewest" are sizes that are proven:
levels to the power of the strength; with two levels those of Kleitman and Spencer (1973) at strength 2, above it twice the fewest of one
strength and one column less. Seconds are of the processor and of the clock.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from hotlap.kernels.coverage.covering import design, uncovered

PUBLISHED = (  # strength, columns, levels, rows, whether the fewest there can be
    (2, 4, 3, 9, True), (2, 10, 2, 6, True), (2, 10, 3, 14, False), (2, 6, 5, 25, True), (2, 10, 9, 81, True),
    (3, 6, 3, 33, False), (3, 10, 2, 12, True), (3, 10, 3, 45, False), (3, 6, 4, 64, True), (3, 6, 5, 125, True), (3, 6, 6, 258, False),
    (4, 10, 2, 24, True), (4, 5, 3, 81, True), (3, 10, 6, 380, False),
)  # fmt: skip


def main() -> int:
    """Prints a line for each; exit code 1 where a tuple is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = []
    for strength, columns, levels, published, fewest in PUBLISHED:
        began, busy = time.perf_counter(), time.process_time()
        array = design([levels] * columns, strength)
        took, busy = time.perf_counter() - began, time.process_time() - busy
        missing = uncovered(array.rows, [levels] * columns, strength)
        beside = "the fewest" if fewest else "best published"
        more = len(array.rows) / published - 1
        rows.append({
            "strength": strength, "columns": columns, "levels": levels, "rows": len(array.rows), "beside": published, "what": beside,
            "more": more, "uncovered": missing, "seconds": took, "cpu_seconds": busy,
        })  # fmt: skip
        if not args.json:
            told = f"{len(array.rows):4} rows, {published:4} {beside} ({more:+.1%}), {missing} uncovered"
            print(f"{strength}-way, {columns:2} columns of {levels}: {told}, {busy:4.1f} of {took:4.1f} s", flush=True)
    if args.json:
        print(json.dumps(rows))
    return int(any(row["uncovered"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
