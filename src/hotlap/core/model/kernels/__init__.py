"""Expected times of families of kernels."""
