"""What runs inside the measured program: a folder put before its path, so that its `sitecustomize` starts with it."""
