"""What starts agents: one file each, one contract (`base.AgentLauncher`)."""
