"""When a step first calls the model: what passes before that is no forward pass. Looked at in the launch that counts operations, for a
hook on every module would be in the times of the others."""

from __future__ import annotations

import sys
import threading
from typing import Any

AHEAD = "before_forward"  # the part of a step
AFRESH = ("data_wait", "backward", "optimiser")  # parts after which the next call is a first one


class ModelCalls:
    """Marks the first call of a module with gradients after a batch, a backward pass or a step."""

    def __init__(self, recorder: Any) -> None:
        self.recorder, self.waiting, self.handle = recorder, True, None
        self.shares: list[float] = []  # of the time until `backward()`, a step each

    def begin(self) -> None:
        """Not of a program that compiles: its graphs would be compiled anew."""
        module = sys.modules.get("torch.nn.modules.module")
        if module is not None and self.handle is None and not self.recorder.events:
            self.handle = module.register_module_forward_pre_hook(self._called)

    def end(self) -> None:
        if self.handle is not None:
            self.handle.remove()
        self.handle = None

    def left(self, part: str) -> None:
        """A part of the step has ended."""
        self.waiting = self.waiting or part in AFRESH

    def ended(self, parts: dict[str, float]) -> None:
        """A step has ended, whose parts took so many seconds."""
        self.waiting = True
        if self.handle is not None and parts[AHEAD] > 0:
            self.shares.append(parts[AHEAD] / (parts[AHEAD] + parts["forward"]))

    def _called(self, *_: Any) -> None:
        first = self.waiting and not self.recorder.stack and threading.get_ident() == self.recorder.thread
        if first and sys.modules["torch"].is_grad_enabled():
            self.waiting = False
            self.recorder.to(AHEAD)
