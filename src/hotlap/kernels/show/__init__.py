"""What the verbs of kernels print, and their pages."""
