"""What a training learns from: sentence pairs (pairs.py) or running text (text.py)."""
