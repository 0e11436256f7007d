"""Nodes: their facts, audits of these against rules, and their telemetry."""
