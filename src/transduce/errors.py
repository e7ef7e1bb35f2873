"""The exceptions of this package and their exit codes.

    TransduceError              1   base class; not raised itself
    +-- UsageError              2   invalid command line
    +-- DataError              65   invalid corpus or input text
    +-- MissingInputError      66   input file missing or unreadable
    +-- DivergedError          70   loss became NaN or infinite
    +-- OutputError            73   output cannot be created
    +-- StorageError           74   reading or writing failed (disk full)
    +-- BusyError              75   run folder or port in use; try again later
    +-- RankError              76   a training process lost contact with the others
    +-- ConfigError            78   unknown setting or invalid value
    |   +-- ModelError         78   not a model folder, damaged, or not usable for the request
    +-- StoppedError  130 138 143   training stopped by SIGINT, SIGUSR1 or SIGTERM; checkpoint saved

A message says what is wrong, with the value found and the value expected, and what to do.
Tests check the text of each message.
"""


class TransduceError(Exception):
    """The base class of all errors that this package raises deliberately."""

    exit_code = 1
    already_reported = False  # whether another training process has printed the error


class UsageError(TransduceError):
    """The command line is invalid: unknown options, or options that exclude each other."""

    exit_code = 2


class DataError(TransduceError):
    """A corpus or an input text is invalid."""

    exit_code = 65


class MissingInputError(TransduceError):
    """An input file does not exist or cannot be read."""

    exit_code = 66


class DivergedError(TransduceError):
    """The training loss became NaN or infinite."""

    exit_code = 70


class OutputError(TransduceError):
    """The output cannot be created: no such folder, no permission, or the path is taken."""

    exit_code = 73


class StorageError(TransduceError):
    """Reading or writing failed, for instance because the disk is full."""

    exit_code = 74


class BusyError(TransduceError):
    """Another process uses the run folder or the port; try again later."""

    exit_code = 75


class RankError(TransduceError):
    """The training processes lost contact.

    The same command resumes from the last checkpoint.
    """

    exit_code = 76


class ConfigError(TransduceError):
    """A setting is unknown, of the wrong type, or conflicts with another."""

    exit_code = 78


class ModelError(ConfigError):
    """A folder is not a model folder, is damaged, or does not support the request."""


class StoppedError(TransduceError):
    """Training received a signal to stop, finished its step and saved a checkpoint."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number
