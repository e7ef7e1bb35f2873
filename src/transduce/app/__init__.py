"""The commands: the only layer that knows all others."""
