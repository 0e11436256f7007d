"""Fitting coefficients to published measurements, and scoring them on what was never fitted."""
