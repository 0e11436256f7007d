#!/usr/bin/env bash
# Opens damaged traces of every format for so many minutes (10 unless told); keeps each that breaks a promise in fuzzed/ and fails then.
#
#   scripts/fuzz_traces.sh [MINUTES [FOLDER]]
set -euo pipefail
cd "$(dirname "$0")/.."
exec .venv/bin/python tests/traces/fuzzing.py "${1:-10}" "${2:-fuzzed}"
