"""Captures of frames: read whatever tool wrote them, judged by definitions that are named, kept as runs."""
