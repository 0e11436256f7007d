"""Networks as sums of kernels: their shapes, what a step of them runs, the memory it needs, and the time it takes."""
