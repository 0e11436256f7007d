"""Frames presented to a window, each after the one before, as fast as the display takes them; the window is read to see that they came."""

from __future__ import annotations

from typing import Any

import numpy as np

from hotlap.core import units
from hotlap.core.errors import NotSupported
from hotlap.core.measure.pictures import compared
from hotlap.core.measure.targets.base import Target
from hotlap.core.measure.window import XWindow
from hotlap.core.measure.workloads.base import Prepared
from hotlap.core.measure.workloads.drawing import Picture, line
from hotlap.core.measure.workloads.graphics import stairs, stairs_shown
from hotlap.core.record import Case, Check, Notice
from hotlap.core.work.base import integer

FORMAT = "bgra8unorm"
FRAMES = 8  # of a sample: the wait for the last of them is a small part
LATE = 1.5  # times the median, from which a frame came late: between one refresh and two
ARRIVES_S = 2.0  # in which the display must show what was presented


def prepare(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    """Raises NotSupported on a target that does not draw, without a display, and where the adapter cannot present to it in this mode."""
    if target.dialect != "wgsl":
        raise NotSupported(f"the {target.device.target} target does not draw; give --target webgpu")
    drawing: Any = target
    side, layers = integer(case.params, "side"), integer(case.params, "layers")
    picture = Picture(drawing, side, FORMAT)
    commands, colour = stairs(picture, layers, rng)
    colour()
    window = XWindow(side)
    try:
        screen = Screen(drawing, window, str(case.params["mode"]))
    except BaseException:
        window.close()
        raise
    frames: list[float] = []

    def enqueue(calls: int) -> None:
        last = None
        for _ in range(calls):
            screen.present(picture, commands)
            now = target.clock.now()
            if last is not None:
                frames.append(now - last)
            last = now

    def check() -> Check:
        should = stairs_shown(colour(), side)[:, :, :3]
        screen.present(picture, commands)
        target.sync()
        until = target.clock.now() + ARRIVES_S
        while True:
            seen = compared(window.read(), should, 0.0, "all pixels that the window shows, exact")
            if seen.passed or target.clock.now() > until:
                return seen
            target.clock.sleep(0.005)

    def close() -> None:
        screen.close()
        window.close()

    return Prepared(
        enqueue, check, timer="wall", batch=FRAMES, variant=f"{case.params['mode']} to an X11 window", close=close,
        notices=lambda: paced(frames),
    )  # fmt: skip


class Screen:
    """What a device presents to. Raises NotSupported for a format or mode that the display and adapter do not have."""

    def __init__(self, target: Any, window: XWindow, mode: str) -> None:
        self.target = target
        info = {"method": "screen", "platform": "x11", "window": window.handle, "display": window.display, "vsync": mode == "fifo"}
        try:
            self.context = target.wgpu.gpu.get_canvas_context(info)
            self.context.set_physical_size(window.side, window.side)
            modes = self.context._get_capabilities(target.raw.adapter)["present_modes"]  # nothing public says them
            if mode not in modes:
                raise NotSupported(f"this adapter does not present by '{mode}' here; it has {', '.join(modes) or 'none'}")
            self.context.configure(device=target.raw, format=FORMAT)
        except NotSupported:
            raise
        except Exception as error:  # drivers raise kinds of their own
            raise NotSupported(f"this adapter cannot present to this display ({line(error)})") from error

    def present(self, picture: Picture, commands: Any) -> None:
        """One frame: waits where the display has not yet taken those before."""
        picture.views[0] = self.context.get_current_texture().create_view()
        picture.draw(commands)
        self.target.submit()
        self.context.present()

    def close(self) -> None:
        self.target.sync()
        self.context.unconfigure()
        del self.context


def paced(frames: list[float]) -> list[Notice]:
    """How even the frames came, from present to present, those of the sizing among them."""
    if not frames:
        return []
    median, p99, longest = (float(one) for one in np.quantile(frames, (0.5, 0.99, 1.0)))
    late = sum(one > LATE * median for one in frames)
    middle, high, most = (units.show(one, "s") for one in (median, p99, longest))
    seen = f"present to present: median {middle}, p99 {high}, longest {most}; {late} of {len(frames)} frames over {LATE:g} × the median"
    return [Notice(code="pacing", seen=seen)]
