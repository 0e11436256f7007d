"""Other people's benchmarks: found, run, refuted, read, and set beside Hotlap's own numbers."""
