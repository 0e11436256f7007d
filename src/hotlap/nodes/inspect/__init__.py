"""Facts of the machine: what a result was measured on."""
