"""What can go wrong, and the exit code of each.

    TransduceError              1   a bug, if it is ever raised itself
    +-- UsageError              2   the command line does not fit
    +-- DataError              65   a corpus or an input is not what it must be
    +-- MissingInputError      66   a file that should be read is not there
    +-- DivergedError          70   training left the numbers
    +-- OutputError            73   the output cannot be created
    +-- StorageError           74   reading or writing failed half-way (disk full)
    +-- BusyError              75   try again: somebody holds the folder or the port
    +-- RankError              76   in a process of several that train together: it lost contact with the others
    +-- ConfigError            78   a setting is unknown or impossible
    |   +-- ModelError         78   a folder is not a model, or not one we can use
    +-- StoppedError  130 138 143   training was asked to stop (SIGINT, SIGUSR1, SIGTERM) and has saved a checkpoint

A message says what was found, what was wanted, where, and what to do next. Each one has a test on its text.
"""


class TransduceError(Exception):
    """The root: everything this package raises on purpose."""

    exit_code = 1
    already_reported = False  # by another process that trains together with this one


class UsageError(TransduceError):
    """The command line does not fit."""

    exit_code = 2


class DataError(TransduceError):
    """A corpus or an input is not what it must be."""

    exit_code = 65


class MissingInputError(TransduceError):
    """A file that should be read is not there, or cannot be read."""

    exit_code = 66


class DivergedError(TransduceError):
    """Training left the numbers: the loss is not finite."""

    exit_code = 70


class OutputError(TransduceError):
    """The output cannot be created: no such folder, no permission, or something else lives there."""

    exit_code = 73


class StorageError(TransduceError):
    """Reading or writing failed half-way, for instance because the disk is full."""

    exit_code = 74


class BusyError(TransduceError):
    """Try again later: another process holds the run folder."""

    exit_code = 75


class RankError(TransduceError):
    """Processes that train together lost contact; started again, they go on from the last checkpoint."""

    exit_code = 76


class ConfigError(TransduceError):
    """A setting is unknown, of the wrong type, or impossible together with another."""

    exit_code = 78


class ModelError(ConfigError):
    """A folder is not a model folder, is damaged, or does not do what was asked."""


class StoppedError(TransduceError):
    """Training was asked to stop, has finished its step and saved a checkpoint."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number
