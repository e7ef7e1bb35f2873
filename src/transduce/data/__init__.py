"""Training data: the prepared corpus on disk, its encoding, and the order of its batches."""
