"""Strings <-> ids. Never imports torch."""
