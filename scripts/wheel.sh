#!/usr/bin/env bash
# The wheel, installed outside the repository with its own dependencies alone, does what the repository does: package data is in it.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree" # built elsewhere: a build/ folder in the tree would keep files that are gone
cp -r pyproject.toml README.md LICENSE src "$work/tree"
python3 -m venv "$work/venv"
pip() { "$work/venv/bin/python" -m pip --quiet --disable-pip-version-check "$@" 2>&1 | grep -v '^WARNING: Location' || true; }
pip wheel --no-deps --wheel-dir "$work/dist" "$work/tree"
pip install --constraint "$root/constraints.txt" "$work"/dist/hotlap-*.whl
cd "$work" # so that the installed package is imported
export HOTLAP_HOME=$work/home COLUMNS=100
hotlap=$work/venv/bin/hotlap
"$work/venv/bin/python" "$root/examples/simulated_timeline.py" syncs --trace trace.json >/dev/null
ran() { printf '%s\n' "hotlap $*"; "$hotlap" "$@" >"$work/out" 2>"$work/err" || { code=$?; tail -n 20 "$work/out" "$work/err"; echo "wheel: 'hotlap $*' ended with $code" >&2; exit 1; }; test -s "$work/out"; }
"$work/venv/bin/python" -c 'from importlib.metadata import entry_points; [p] = entry_points(group="pytest11", name="hotlap"); assert p.value == "hotlap.pytest_plugin"'
ran devices
ran run quick --target simulated:h200-sxm --rounds 2
ran show latest
ran report latest --out page.html
test -s page.html
ran predict gemm m=4096 n=4096 k=4096 dtype=bf16 --machine h200-sxm
ran predict net llama-3-8b --phase decode --machine h200-sxm
ran plan show
ran model machines
ran trace trace.json
ran kernel list
ran node inspect
ran schema
echo "wheel: $(basename "$work"/dist/*.whl) works outside the repository"
