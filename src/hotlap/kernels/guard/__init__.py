"""The guard of users' kernels: what they may do to look fast, and what shows it."""
