"""For processes that a test starts: the lighter sizes of lighter.py, and cubins that the stand-in knows. PYTHONPATH names this folder."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))

from cuda_stand_in import lighter


class After:
    """Finds the modules below as ever, and changes them when they have been executed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        spec = PathFinder.find_spec(name, path) if name in lighter.CHANGES else None
        if spec is None or spec.loader is None:
            return None
        execute, change = spec.loader.exec_module, lighter.CHANGES[name]

        def then_change(module: ModuleType) -> None:
            execute(module)
            change(module, lighter.Lasting)

        spec.loader.exec_module = then_change  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, After())
