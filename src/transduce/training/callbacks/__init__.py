"""Training callbacks: the interface (base.py) and one module per callback."""
