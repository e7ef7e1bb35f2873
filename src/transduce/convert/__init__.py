"""Models in the formats of other programs, with parity checks."""
