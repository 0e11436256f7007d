"""Programs of others as a tool file describes them: found, run, refuted, read. Other features may bring files of their own."""
