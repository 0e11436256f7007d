"""Networks as cases; how much of their use a plan covers; the fewest cases that close what is missing."""
