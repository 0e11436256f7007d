"""Families of kernels: how long each takes on any GPU, from its spec and a few coefficients."""
