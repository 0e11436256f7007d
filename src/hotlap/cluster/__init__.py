"""One measurement on many machines: campaigns, agents, launchers."""
