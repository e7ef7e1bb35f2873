"""Logits -> text: search, sampling, the translator."""
