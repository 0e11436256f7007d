#!/usr/bin/env bash
# `hotlap tuning run` on this machine, on three real programs: a training in PyTorch whose batches are decompressed as they are loaded, which
# processes that load beside it hide (a gain, where a second core is free); a count of one thread that no setting of threads can make faster
# (nothing worth it); a small training whose threads get in each other's way beside another process. Answers are printed, not asserted: they
# are this machine's. Each takes its budget, 6 minutes (HOTLAP_TUNING_BUDGET='3 min'); HOTLAP_TUNING_CASES='loader counting' leaves one out.
#
#   scripts/tuning_check.sh [FOLDER]      runs are kept in FOLDER as zips, with what was printed (default: a temporary one, removed)
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
keep=${1:-$work/keep}
budget=${HOTLAP_TUNING_BUDGET:-6 min}
cases=" ${HOTLAP_TUNING_CASES:-loader counting training} "
mkdir -p "$keep"
keep=$(cd "$keep" && pwd)
within=$(realpath --relative-to=examples/tuning "$keep") # what is tuned runs there, and prints this path
export HOTLAP_HOME=$work/home
root=$PWD
tune() { name=$1; shift
    (cd examples/tuning && "$root/.venv/bin/python" -m hotlap tuning run "$@" --budget "$budget" --seed 1 --out "$within/$name.toml") || echo "exit code $?"
    [ -d "$HOTLAP_HOME/runs" ] || return 0
    (cd "$HOTLAP_HOME/runs" && "$root/.venv/bin/python" -m zipfile -c "$keep/$name.zip" "$(ls | tail -1)")
}
loader() {
    printf '\n== batches that are decompressed as they are loaded\n'
    .venv/bin/python -c 'import torch' 2>/dev/null || { echo 'not run: PyTorch is not installed'; return; }
    tune loader 'python load.py --workers {loader_workers}' --goal step --switches 'loader_workers=0,1,2' --result 'loss ([0-9.e-]+)' \
        --resolve '5 %'
}
counting() {
    printf '\n== one thread that counts\n'
    tune counting 'python counting.py' --metric 'cpu ([0-9.]+)' --unit s --better lower --result 'total ([0-9]+)' \
        --switches 'omp_threads; omp_wait; omp_binding' --resolve '4 %'
}
training() {
    printf '\n== training beside another process\n'
    .venv/bin/python -c 'while True: pass' & beside=$!
    trap 'kill "$beside" 2>/dev/null || true' EXIT  # of the pipeline's shell
    tune training 'python train.py' --goal step --switches 'omp_threads; omp_wait' --result 'loss ([0-9.e-]+)'
}
{
    printf 'load average %s, %s cores\n' "$(cut -d' ' -f1-3 /proc/loadavg)" "$(nproc)"
    for case in loader counting training; do [[ $cases != *" $case "* ]] || "$case"; done
} 2>&1 | tee "$keep/printed.txt"
