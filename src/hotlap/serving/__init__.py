"""Requests to servers of models: sent on a schedule, counted from when they were due, and judged against objectives."""
