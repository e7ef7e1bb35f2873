"""What happens while a model trains: one file per callback."""
