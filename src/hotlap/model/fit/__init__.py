"""Fitting the model's coefficients to published measurements, and scoring what is fitted on what was held out."""
