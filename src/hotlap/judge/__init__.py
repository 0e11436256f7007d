"""From gaps to verdicts. This version names the state of a case; it passes and fails nothing, since nothing is expected yet."""
