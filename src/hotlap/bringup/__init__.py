"""Bring-up: which part of a fabric is slow, by transfers between pairs."""
