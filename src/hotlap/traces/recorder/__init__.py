"""What `hotlap trace capture` puts into the program under its eyes: its folder is first on PYTHONPATH. It imports nothing of Hotlap."""
