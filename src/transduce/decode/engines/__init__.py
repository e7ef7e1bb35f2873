"""Search engines, each an implementation of the protocol in base.py."""
