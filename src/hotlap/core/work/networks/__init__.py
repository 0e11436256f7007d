"""Networks: their shapes with sources, and what a step of them runs on one GPU."""
