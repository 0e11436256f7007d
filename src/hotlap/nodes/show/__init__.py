"""What the verbs of nodes print."""
