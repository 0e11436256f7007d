#!/usr/bin/env bash
# NVRTC of CUDA 12 into a folder of its own, beside the one of the environment: tests/cuda_stand_in/test_old_drivers.py measures with it on
# drivers of CUDA 12 (HOTLAP_NVRTC12 names the folder), as who follows the remedy that `hotlap devices` prints.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?usage: scripts/nvrtc12.sh FOLDER}
[ -f "$folder/nvidia/cuda_nvrtc/lib/libnvrtc.so.12" ] ||
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --constraint constraints.txt --target "$folder" nvidia-cuda-nvrtc-cu12
echo "$folder"
