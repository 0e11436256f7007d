"""Expected times of kernels from a machine's published figures: one module per family, arrays of cases in, named parts out."""
