"""The type of the functions that report progress to people."""

from collections.abc import Callable

Log = Callable[[str], None]  # prints one line; commands pass a function of cli.output


def silent(message: str) -> None:
    """Print nothing: the default of functions that report progress."""
