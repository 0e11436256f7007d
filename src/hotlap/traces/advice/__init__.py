"""Findings that say what a fix would gain, and what to do."""
