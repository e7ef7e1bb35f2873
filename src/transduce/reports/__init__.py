"""Self-contained HTML pages: what they share, and one file per page."""
