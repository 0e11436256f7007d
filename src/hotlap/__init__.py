"""Hotlap measures what an accelerator really delivers, and how far that is from what the hardware allows."""

__version__ = "0.1.0"
