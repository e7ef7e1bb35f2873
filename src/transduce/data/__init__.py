"""Pairs -> batches."""
