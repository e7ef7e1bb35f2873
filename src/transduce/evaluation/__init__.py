"""Score translations and compare systems."""
