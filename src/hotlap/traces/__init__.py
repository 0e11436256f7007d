"""Timelines of profilers: their readers, and what the time went into."""
