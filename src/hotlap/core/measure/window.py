"""A window on an X11 display that pictures are presented to, and what it shows. Through Xlib alone, so that nothing must be installed."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, Structure, c_char_p, c_int, c_long, c_uint, c_ulong, c_void_p
from functools import cache
from typing import Any

import numpy as np

from hotlap.core.errors import NotSupported
from hotlap.core.measure.targets.base import Array

NO_DISPLAY = "there is no X11 display to present to (DISPLAY is not set); run it in a desktop session, or: xvfb-run -a hotlap …"
ALL_PLANES, Z_PIXMAP, OVERRIDE_REDIRECT = ctypes.c_ulong(-1), 2, 1 << 9
BYTES, RED = 4, 0xFF0000  # of a pixel; where its red lies


class _Attributes(Structure):
    """XSetWindowAttributes of Xlib.h."""

    _fields_ = [
        *((name, c_ulong) for name in ("background_pixmap", "background_pixel", "border_pixmap", "border_pixel")),
        *((name, c_int) for name in ("bit_gravity", "win_gravity", "backing_store")),
        ("backing_planes", c_ulong), ("backing_pixel", c_ulong), ("save_under", c_int), ("event_mask", c_long),
        ("do_not_propagate_mask", c_long), ("override_redirect", c_int), ("colormap", c_ulong), ("cursor", c_ulong),
    ]  # fmt: skip


class _Image(Structure):
    """The beginning of XImage of Xlib.h."""

    _fields_ = [
        *((name, c_int) for name in ("width", "height", "xoffset", "format")), ("data", c_void_p),
        *((name, c_int) for name in ("byte_order", "unit", "bit_order", "pad", "depth", "bytes_per_line", "bits_per_pixel")),
        ("red_mask", c_ulong),
    ]  # fmt: skip


_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "XInitThreads": (c_int, ()), "XOpenDisplay": (c_void_p, (c_char_p,)), "XDefaultRootWindow": (c_ulong, (c_void_p,)),
    "XDisplayWidth": (c_int, (c_void_p, c_int)), "XDisplayHeight": (c_int, (c_void_p, c_int)),
    "XCreateSimpleWindow": (c_ulong, (c_void_p, c_ulong, c_int, c_int, c_uint, c_uint, c_uint, c_ulong, c_ulong)),
    "XChangeWindowAttributes": (c_int, (c_void_p, c_ulong, c_ulong, POINTER(_Attributes))),
    "XMapRaised": (c_int, (c_void_p, c_ulong)), "XSync": (c_int, (c_void_p, c_int)), "XDestroyWindow": (c_int, (c_void_p, c_ulong)),
    "XCloseDisplay": (c_int, (c_void_p,)), "XDestroyImage": (c_int, (POINTER(_Image),)), "XSetErrorHandler": (c_void_p, (c_void_p,)),
    "XGetImage": (POINTER(_Image), (c_void_p, c_ulong, c_int, c_int, c_uint, c_uint, c_ulong, c_int)),
}  # fmt: skip
_NO_EXIT = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)(lambda _display, _error: 0)  # Xlib's own ends the process


@cache
def _xlib() -> Any:
    try:
        library = ctypes.CDLL("libX11.so.6")
    except OSError as error:
        raise NotSupported("presenting needs the library libX11.so.6, which is not here: apt-get install libx11-6") from error
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    library.XInitThreads()
    return library


class XWindow:
    """A square of `side` pixels at the screen's corner, not moved by window managers. Raises NotSupported without a display for it."""

    def __init__(self, side: int) -> None:
        if not os.environ.get("DISPLAY"):
            raise NotSupported(NO_DISPLAY)
        self.side, self.x = side, _xlib()
        self.display = self.x.XOpenDisplay(None)
        if not self.display:
            raise NotSupported(f"the X11 display '{os.environ['DISPLAY']}' cannot be opened; is it running, and are you allowed to use it?")
        self.x.XSetErrorHandler(ctypes.cast(_NO_EXIT, c_void_p))
        wide, high = self.x.XDisplayWidth(self.display, 0), self.x.XDisplayHeight(self.display, 0)
        if side > min(wide, high):
            self.x.XCloseDisplay(self.display)
            raise NotSupported(f"a side of {side} pixels is more than the screen has, {wide} × {high}; give a smaller side")
        self.handle = self.x.XCreateSimpleWindow(self.display, self.x.XDefaultRootWindow(self.display), 0, 0, side, side, 0, 0, 0)
        free = _Attributes(override_redirect=1)
        self.x.XChangeWindowAttributes(self.display, self.handle, OVERRIDE_REDIRECT, ctypes.byref(free))
        self.x.XMapRaised(self.display, self.handle)
        self.x.XSync(self.display, 0)

    def read(self) -> Array:
        """What the window shows: red, green and blue, shape (side, side, 3), uint8."""
        self.x.XSync(self.display, 0)
        image = self.x.XGetImage(self.display, self.handle, 0, 0, self.side, self.side, ALL_PLANES, Z_PIXMAP)
        if not image:
            raise NotSupported("the window cannot be read: it was closed, or lies beyond the screen")
        try:
            seen = image.contents
            if seen.bits_per_pixel != 8 * BYTES or seen.red_mask != RED or seen.byte_order:
                raise NotSupported("the display has no pixels of 8 bits a colour; presenting is checked on those only")
            raw = np.frombuffer(ctypes.string_at(seen.data, seen.bytes_per_line * self.side), np.uint8)
            return raw.reshape(self.side, -1)[:, : BYTES * self.side].reshape(self.side, self.side, BYTES)[:, :, 2::-1].copy()
        finally:
            self.x.XDestroyImage(image)

    def close(self) -> None:
        self.x.XDestroyWindow(self.display, self.handle)
        self.x.XCloseDisplay(self.display)
