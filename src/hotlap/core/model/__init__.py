"""What it should be: the machine table, provable bounds, expectations, the simulator. Nothing here measures."""
