"""Settings searched and proven: what was tried, what remains, and one gain that was confirmed on runs the search has not seen."""
