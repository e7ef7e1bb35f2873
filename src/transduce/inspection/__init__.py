"""Traces of everything a model computes for one text, and their views: terminal, page, file."""
