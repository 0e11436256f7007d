"""Steps of networks as sums of kernels: the memory they need, and the time they take."""
