"""In programs that a test starts: PyTorch gets the stand-in as soon as it is imported, and is not imported for it."""

import importlib.abc
import importlib.util
import os
import sys


class _After(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads `torch` as ever, then stands in for its GPU."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        self.real, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        return self.real.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = self.real
        self.real.exec_module(module)
        import torch_stand_in

        torch_stand_in.forever(os.environ[torch_stand_in.VARIABLE])


if "TORCH_STAND_IN" in os.environ:
    sys.meta_path.insert(0, _After())
