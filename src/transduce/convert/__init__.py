"""Weights and vocabularies out to other programs' formats, and nothing else."""
