"""python -m hotlap.serving.simulated OPTIONS PARENT: one line of JSON when it listens; ends with the process PARENT."""

from __future__ import annotations

import sys

from hotlap.core.errors import HotlapError
from hotlap.core.record import encode
from hotlap.serving.simulated import http, options


def main() -> int:
    try:
        http.run(options.decode(sys.argv[1]), lambda facts: print(encode(facts).decode(), flush=True), int(sys.argv[2]))
    except HotlapError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
