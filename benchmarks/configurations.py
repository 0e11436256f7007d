"""The parameters of ten models as transformers and diffusers build them on the meta device, from the configurations that a test reads.

    python benchmarks/configurations.py

Runs in an environment with the libraries that the table names; Hotlap is not needed, and no weights are loaded. Exit code 1 where a count
differs from the table's.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TABLE = Path(__file__).resolve().parent.parent / "tests" / "core" / "work" / "configurations.toml"


def main() -> int:
    """Prints a line for each: all parameters, those of the parts that are left out, and the rest, which the table holds."""
    table = tomllib.loads(TABLE.read_text("utf-8"))
    print(", ".join(f"{name} {_version(name)} (the table: {wanted})" for name, wanted in table["libraries"].items()))
    print(f"{'configuration':<20}  {'class':<32}  {'all':>14}  {'left out':>13}  {'included':>14}  table")
    wrong = 0
    for given in table["configuration"]:
        whole, left_out = counted(given)
        same = whole - left_out == given["parameters"]
        wrong += not same
        said = "the same" if same else f"{given['parameters']:,}"
        print(f"{given['name']:<20}  {given['class']:<32}  {whole:>14,}  {left_out:>13,}  {whole - left_out:>14,}  {said}")
    return 1 if wrong else 0


def counted(given: Mapping[str, Any]) -> tuple[int, int]:
    """All parameters, and those of submodules that are left out; shared ones count once."""
    import torch

    with torch.device("meta"):
        module = _built(given["class"], dict(given["config"]))
    parts = [module.get_submodule(name) for name in given.get("left_out", [])]
    return _parameters(module), sum(_parameters(part) for part in parts)


def _parameters(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _built(name: str, config: dict[str, Any]) -> Any:
    """Of diffusers where the configuration names its class, as theirs do; else of transformers."""
    if "_class_name" in config:
        return getattr(importlib.import_module("diffusers"), name).from_config(config)
    transformers = importlib.import_module("transformers")
    return getattr(transformers, name)(transformers.AutoConfig.for_model(**config))


def _version(name: str) -> str:
    return importlib.metadata.version(name).partition("+")[0]


if __name__ == "__main__":
    sys.exit(main())
