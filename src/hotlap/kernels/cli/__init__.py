"""The verbs of kernels: wiring only."""
