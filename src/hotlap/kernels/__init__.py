"""Kernels: what networks ask of them, what covers that, your own beside the library's, what compilers made of them, and their life."""
