"""Expected times of kernels, a family per file: cases as arrays in, times with their named parts out."""
