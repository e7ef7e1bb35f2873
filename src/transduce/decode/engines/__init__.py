"""Engines: how a batch of encoded sentences is searched."""
