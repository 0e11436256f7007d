"""What the verbs of traces print, and their pages."""
