"""The verbs of nodes: wiring only."""
