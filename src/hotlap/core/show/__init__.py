"""Rows as text, Markdown, HTML, CSV, JSON and JUnit."""
