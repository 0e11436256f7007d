"""The machine that is measured on: its fingerprint, its processor, its settings, and how busy it is."""
