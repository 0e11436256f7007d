"""Arrays in, answers with their doubts out. No I/O."""
