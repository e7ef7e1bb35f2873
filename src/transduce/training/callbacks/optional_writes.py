"""Writes that may fail without stopping the training: a full disk must not end a run."""

from collections.abc import Callable

from transduce.log import Log


class OptionalWrites:
    """Runs writes and catches their I/O errors. Only the first failure is reported.

    Callbacks that write to the same disk share one instance, so that a full disk is reported once.
    """

    def __init__(self, note: Log) -> None:
        self.note = note
        self._has_failed = False

    def attempt(self, what: str, write: Callable[[], None]) -> None:
        """Call `write`; if it raises OSError, report that `what` cannot be written."""
        try:
            write()
        except OSError as error:
            if not self._has_failed:
                self.note(f"cannot write {what}: {error.strerror}; training continues without it")
            self._has_failed = True
