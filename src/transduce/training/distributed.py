"""Several processes that train one model: who this one is, and what they tell each other.

Each rank takes its own batches; gradients are added up over all of them, so every rank makes the same step. The first rank alone
validates, saves and speaks. torchrun and `train --processes` start the ranks and set the same environment variables.
"""

import atexit
import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, is_dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.distributed_c10d import PrefixStore, rendezvous  # type: ignore[attr-defined]  # they are there

from transduce.errors import ConfigError, RankError, TransduceError

TIMEOUT = (
    "TRANSDUCE_RANK_TIMEOUT"  # the environment variable: seconds a rank waits for another in a step
)
SECONDS = 300
REPORT_SECONDS = 1.0
# For what the first rank does alone: preparing a corpus; later, validating. A rank that dies is seen at once.
PREPARING, VALIDATING = timedelta(hours=12), timedelta(hours=1)
T = TypeVar("T")


class Ranks:
    """The processes of a training, seen from one of them; they reach each other through torch.distributed. No store: alone."""

    def __init__(
        self, store: Any = None, rank: int = 0, size: int = 1, seconds: float = SECONDS
    ) -> None:
        self.rank, self.size, self._seconds = rank, size, seconds
        self._store, self._has_told = store, False
        if store is None:
            return
        backend, soon = "nccl" if torch.cuda.is_available() else "gloo", timedelta(seconds=seconds)
        self._call(
            lambda: dist.init_process_group(
                backend, store=store, rank=rank, world_size=size, timeout=soon
            )
        )
        atexit.register(close)
        self._prompt, self._very_patient, self._patient = self._call(
            lambda: [
                dist.new_group(backend="gloo", timeout=timeout)
                for timeout in (soon, PREPARING, VALIDATING)
            ]
        )

    @property
    def is_first(self) -> bool:
        """Whether this is the one that validates, saves and speaks."""
        return self.rank == 0

    def once(self, make: Callable[[], T], rebuild: Callable[[Any], T]) -> T:
        """What the first rank made, known to all: the others rebuild it from JSON. If it raised one of our errors, all raise it."""
        if not self.is_first:
            told = self._tell(None)
            if "error" in told:
                raise told_error(*told["error"])
            return rebuild(told["value"])
        try:
            made = make()
        except TransduceError as error:
            self._tell(failure(error))
            raise
        self._tell({"value": made})
        return made

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """If the first rank fails before its first `once`, for which the others wait, they are told."""
        try:
            yield
        except TransduceError as error:
            if self.is_first and not self._has_told:
                self._tell(failure(error))
            raise

    def add(self, number: int) -> int:
        """The sum over all ranks."""
        return self._reduce(number, dist.ReduceOp.SUM)

    def largest(self, number: int) -> int:
        """The largest over all ranks."""
        return self._reduce(number, dist.ReduceOp.MAX)

    def add_gradients(self, model: nn.Module, loss: float) -> float:
        """Give every rank the sum of all gradients, and of the losses: in one exchange."""
        if self.size == 1:
            return loss
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        parts = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
        together = torch.cat([*(part.flatten() for part in parts), parts[0].new_tensor([loss])])
        self._call(lambda: dist.all_reduce(together, dist.ReduceOp.SUM))
        first = 0
        for parameter in parameters:
            parameter.grad = together[first : first + parameter.numel()].view_as(parameter)
            first += parameter.numel()
        return together[-1].item()

    def spread(self, model: nn.Module) -> None:
        """Give every rank the weights of the first."""
        for parameter in model.parameters() if self.size > 1 else ():
            tensor = parameter.detach()
            self._call(lambda tensor=tensor: dist.broadcast(tensor, src=0))  # type: ignore[misc]  # mypy cannot infer it

    def leave(self) -> None:
        """Part in peace: wait for the others, so that none of them finds a closed door."""
        self.once(lambda: None, lambda value: None)
        if self.size > 1:
            close()

    def _tell(self, answer: Any) -> Any:
        """Send JSON from the first rank to all: its length, then itself."""
        if self.size == 1:
            return None
        group = self._patient if self._has_told else self._very_patient
        self._has_told = True
        content = torch.frombuffer(
            bytearray(json.dumps(answer, default=plain).encode()), dtype=torch.uint8
        )
        length = torch.tensor([len(content)])
        self._call(lambda: dist.broadcast(length, src=0, group=group))
        if not self.is_first:
            content = torch.empty(int(length), dtype=torch.uint8)
        self._call(lambda: dist.broadcast(content, src=0, group=group))
        return json.loads(bytes(content.tolist()))

    def _reduce(self, number: int, operation: Any) -> int:
        if self.size == 1:
            return number
        tensor = torch.tensor([number])
        self._call(lambda: dist.all_reduce(tensor, operation, self._prompt))
        return int(tensor.item())

    def _call(self, exchange: Callable[[], T]) -> T:
        """An exchange with the others; if it fails, say who is silent."""
        try:
            return exchange()
        except RuntimeError as error:  # torch.distributed raises this and its children
            reason = first_line(error)
            hint = f"; a step that takes over {self._seconds:.0f} seconds wants a larger {TIMEOUT}"
            raise RankError(
                f"rank {self.rank} of {self.size} lost contact{self._who_is_silent()}: {reason}. The same command goes on from the "
                f"last checkpoint{hint if 'ime' in reason else ''}"
            ) from None

    def _who_is_silent(self) -> str:
        """Of the ranks that lost contact, those that do not report it as well: they are gone, or hang.

        The report goes through the store, which lives with the first rank: if that hangs, the store does.
        """
        silent = [0]

        def report() -> None:
            with contextlib.suppress(RuntimeError):
                self._store.set(f"lost/{self.rank}", "")
                time.sleep(REPORT_SECONDS)
                silent[:] = [
                    rank for rank in range(self.size) if not self._store.check([f"lost/{rank}"])
                ]

        reporter = threading.Thread(target=report, daemon=True)
        reporter.start()
        reporter.join(3 * REPORT_SECONDS)
        return f" with rank {', '.join(map(str, silent))}" if silent else ""


ALONE = Ranks()


def plain(value: Any) -> Any:
    """What the first rank tells, as JSON has it."""
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def failure(error: TransduceError) -> dict[str, list[Any]]:
    """An error as the other ranks are told of it."""
    return {"error": [str(error), error.exit_code]}


def told_error(message: str, exit_code: int) -> TransduceError:
    """The error of the first rank, raised by another."""
    error = TransduceError(message)
    error.exit_code, error.already_reported = exit_code, True
    return error


def close() -> None:
    """Let go of the connections; a process that ends with them open may be aborted by torch."""
    if dist.is_initialized():
        dist.destroy_process_group()


def first_line(error: Exception) -> str:
    """The first sentence of what torch says, without the place in its source."""
    return (
        re.sub(r"^\[\S+\] ", "", str(error).strip().split("\n")[0]).split(". ")[0][:200].rstrip(".")
    )


def join() -> Ranks:
    """The ranks that the environment names, as torchrun does: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. None named: alone.

    After a restart torchrun keeps its store, and with it the addresses of ranks that are dead: names are told apart by the attempt.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return ALONE
    if dist.is_initialized():
        raise RankError("this process has joined other ranks already: one training at a time")
    try:
        seconds = float(os.environ.get(TIMEOUT, SECONDS))
    except ValueError:
        raise ConfigError(
            f"{TIMEOUT} is {os.environ[TIMEOUT]!r}: wanted a number of seconds"
        ) from None
    try:
        store, rank, size = next(rendezvous("env://", timeout=timedelta(seconds=seconds)))
    except (RuntimeError, ValueError) as error:
        raise RankError(
            f"rank {os.environ.get('RANK')} cannot reach the others: {first_line(error)}"
        ) from None
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return Ranks(PrefixStore(f"attempt_{attempt}", store), rank, size, seconds)
