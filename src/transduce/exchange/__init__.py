"""Import and export models, each with a parity check against the other program."""
