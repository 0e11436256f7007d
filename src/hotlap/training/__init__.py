"""A training step and inference engines, measured honestly."""
