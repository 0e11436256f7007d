#!/usr/bin/env bash
# Tools of others that take too long for tests, run for real once each, and the tables with Hotlap's own numbers beside them.
# Of what is not installed it says so, with the command that installs it.
set -uo pipefail
cd "$(dirname "$0")/.."
hotlap() { .venv/bin/hotlap "$@"; }
HOTLAP_HOME=$(mktemp -d)
export HOTLAP_HOME
trap 'rm -rf "$HOTLAP_HOME"' EXIT
status=0
table() { # title, tools and parameters
    printf '\n== %s\n' "$1"
    shift
    hotlap tool run "$@" --rounds 3 --wait '10 min' || { [ $? -eq 3 ] || status=1; } # 3: none of them is here
}
table "memory" mbw sysbench-memory likwid-bench
table "disk" fio ioping sysbench-fileio
table "network over loopback" iperf3 qperf nuttcp
table "fp32" clpeak likwid-peakflops
printf '\n== long ones\n'
hotlap tool run hpcc hashcat --rounds 1 --alone || { [ $? -eq 3 ] || status=1; }
exit $status
