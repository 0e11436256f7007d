"""Hours at the limit: load that is checked, how it was held, and its verdict."""
