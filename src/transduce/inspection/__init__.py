"""Traces of everything a model computes for one text, shown in a terminal, a page or a file."""
