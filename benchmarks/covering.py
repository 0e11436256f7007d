"""Sizes of covering designs beside the best published ones, and the time they take. Every design is counted out exactly.

    python benchmarks/covering.py [--effort 300] [--json]

Published sizes: orthogonal arrays (Bush 1952) and strength 2 with two levels (Kleitman and Spencer 1973) are the fewest there can be;
CA(33;3,6,3) and CA(45;3,10,3) by Chateauneuf and Kreher 2002, CA(12;3,11,2) and CA(24;4,12,2) from the survey of Colbourn 2004,
CA(14;2,10,3) by Nurmela 2004, CA(260;3,6,6) by Cohen, Colbourn and Ling 2003. For 10 columns of 6 levels at strength 3 the tables of
Colbourn are the authority; they are off line, and what stands there is not known here. An array of 10 columns holds one of 8, for which
the fusion of the orthogonal array of 7 levels gives 341 rows: what that figure is beside ours is told as such.
"""

from __future__ import annotations

import argparse
import json
import time

from hotlap.coverage.covering import design, uncovered

PUBLISHED = (  # strength, columns, levels, rows, whether the fewest there can be
    (2, 4, 3, 9, True), (2, 10, 2, 6, True), (2, 10, 3, 14, False), (2, 6, 5, 25, True), (2, 10, 9, 81, True),
    (3, 6, 3, 33, True), (3, 10, 2, 12, True), (3, 10, 3, 45, False), (3, 6, 4, 64, True), (3, 6, 5, 125, True), (3, 6, 6, 260, False),
    (4, 10, 2, 24, True), (4, 5, 3, 81, True),
)  # fmt: skip
ASKED = (3, 10, 6)
BESIDE = 341  # of 8 columns, by fusion


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--effort", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = []
    for strength, columns, levels, published, fewest in (*PUBLISHED, (*ASKED, BESIDE, False)):
        began = time.perf_counter()
        found = design([levels] * columns, strength, effort=args.effort)
        took = time.perf_counter() - began
        missing = uncovered(found.rows, [levels] * columns, strength)
        asked = (strength, columns, levels) == ASKED
        beside = "of 8 columns by fusion" if asked else "the fewest" if fewest else "best published"
        more = len(found.rows) / published - 1
        rows.append({"strength": strength, "columns": columns, "levels": levels, "rows": len(found.rows), "beside": published,
                     "what": beside, "more": more, "uncovered": missing, "seconds": took, "how": found.how})  # fmt: skip
        if not args.json:
            told = f"{len(found.rows):4} rows, {published:4} {beside} ({more:+.1%}), {missing} uncovered, {took:5.1f} s, {found.how}"
            print(f"{strength}-way, {columns:2} columns of {levels}: {told}", flush=True)
    if args.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
