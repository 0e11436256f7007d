"""Statistics: arrays in, answers with their notices out. NumPy only, no input or output."""
