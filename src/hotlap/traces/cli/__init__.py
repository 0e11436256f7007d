"""The verbs of traces: wiring only."""
