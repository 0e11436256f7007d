"""Inference engines, in one table: a file each. An engine's package is imported where it is loaded, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

ENGINES: Mapping[str, str] = {
    "onnxruntime": "hotlap.training.engines.onnxruntime", "openvino": "hotlap.training.engines.openvino",
    "torch": "hotlap.training.engines.pytorch",
}  # fmt: skip
PACKAGES: Mapping[str, str] = {"onnxruntime": "onnxruntime", "openvino": "openvino", "torch": "torch"}
"""What pip installs."""
