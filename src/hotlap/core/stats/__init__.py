"""Statistics: arrays in, answers with their doubts out. NumPy only, no input or output."""
