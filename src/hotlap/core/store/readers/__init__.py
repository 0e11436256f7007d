"""Results that others measured: tables, CSV, simulators, the profiler of CUTLASS."""
