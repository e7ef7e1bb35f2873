"""Data-parallel training: the ranks of a training and how they communicate.

Each rank processes its own batches. Gradients are summed over all ranks, so every rank makes the
same step. Only the first rank validates, saves and prints. torchrun and `train --processes` start
the ranks and set the same environment variables.
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
from functools import partial
from typing import Any, TypeVar

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.distributed_c10d import (  # type: ignore[attr-defined]  # rendezvous
    PrefixStore,
    Store,
    rendezvous,
)

from transduce.errors import ConfigError, RankError, TransduceError

TIMEOUT = "TRANSDUCE_RANK_TIMEOUT"  # environment variable: seconds to wait for a rank in a step
DEFAULT_TIMEOUT = 300  # seconds
REPORT_SECONDS = 1.0  # for the ranks to report that they lost contact
# Timeouts for the work of the first rank: preparing the corpus, later validating. They are long,
# since the death of a rank is noticed at once.
PREPARE_TIMEOUT, VALIDATE_TIMEOUT = timedelta(hours=12), timedelta(hours=1)
T = TypeVar("T")


class Ranks:
    """The processes of a training, as seen from one of them.

    Without a `store` (of torch.distributed) this process trains alone. All methods must be called
    by every rank in the same order, except where noted. They raise RankError if a rank is lost.
    """

    def __init__(
        self,
        store: Store | None = None,
        rank: int = 0,
        size: int = 1,
        seconds: float = DEFAULT_TIMEOUT,
    ) -> None:
        self.rank, self.size, self._seconds = rank, size, seconds
        self._store, self._has_broadcast = store, False
        if store is None:
            return
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        step_timeout = timedelta(seconds=seconds)
        self._call(
            lambda: dist.init_process_group(
                backend, store=store, rank=rank, world_size=size, timeout=step_timeout
            )
        )
        atexit.register(close_process_group)
        self._step_group, self._prepare_group, self._validate_group = self._call(
            lambda: [
                dist.new_group(backend="gloo", timeout=timeout)
                for timeout in (step_timeout, PREPARE_TIMEOUT, VALIDATE_TIMEOUT)
            ]
        )

    @property
    def is_first(self) -> bool:
        """Return whether this is the rank that validates, saves and prints."""
        return self.rank == 0

    def once(self, make: Callable[[], T], rebuild: Callable[[Any], T]) -> T:
        """Call `make` on the first rank and return its result on every rank.

        The other ranks receive its JSON form and convert it with `rebuild`. If `make` raises a
        TransduceError, every rank raises it.
        """
        if not self.is_first:
            message = self._broadcast(None)
            if "error" in message:
                raise error_from_json(*message["error"])
            return rebuild(message["value"])
        try:
            made = make()
        except TransduceError as error:
            self._broadcast(error_to_json(error))
            raise
        self._broadcast({"value": made})
        return made

    @contextlib.contextmanager
    def broadcast_errors(self) -> Iterator[None]:
        """Send an error of the first rank to the others, which wait for its first `once`."""
        try:
            yield
        except TransduceError as error:
            if self.is_first and not self._has_broadcast:
                self._broadcast(error_to_json(error))
            raise

    def add(self, number: int) -> int:
        """Return the sum over all ranks."""
        return self._reduce(number, dist.ReduceOp.SUM)

    def largest(self, number: int) -> int:
        """Return the maximum over all ranks."""
        return self._reduce(number, dist.ReduceOp.MAX)

    def add_gradients(self, model: nn.Module, loss: float) -> float:
        """Replace the gradients of every rank by their sum; return the sum of the losses.

        All gradients and the loss are exchanged as one flat tensor.
        """
        if self.size == 1:
            return loss
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        gradients = [
            torch.zeros_like(each) if each.grad is None else each.grad for each in parameters
        ]
        loss_tensor = gradients[0].new_tensor([loss])
        flat = torch.cat([*(gradient.flatten() for gradient in gradients), loss_tensor])
        self._call(lambda: dist.all_reduce(flat, dist.ReduceOp.SUM))
        first = 0
        for parameter in parameters:
            parameter.grad = flat[first : first + parameter.numel()].view_as(parameter)
            first += parameter.numel()
        return flat[-1].item()

    def broadcast_weights(self, model: nn.Module) -> None:
        """Copy the weights of the first rank to every rank."""
        if self.size == 1:
            return
        for parameter in model.parameters():
            self._call(partial(dist.broadcast, parameter.detach(), src=0))

    def leave(self) -> None:
        """Wait for all ranks, then close the process group."""
        self.once(lambda: None, lambda value: None)
        if self.size > 1:
            close_process_group()

    def _broadcast(self, message: Any) -> Any:
        """Send JSON, not pickle, from the first rank to all: its length, then its bytes."""
        if self.size == 1:
            return None
        group = self._validate_group if self._has_broadcast else self._prepare_group
        self._has_broadcast = True
        encoded = json.dumps(message, default=to_json_value).encode()
        content = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
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
        self._call(lambda: dist.all_reduce(tensor, operation, self._step_group))
        return int(tensor.item())

    def _call(self, exchange: Callable[[], T]) -> T:
        """Run an exchange with the other ranks; raise RankError if it fails."""
        try:
            return exchange()
        except RuntimeError as error:  # torch.distributed raises this and its children
            reason = first_line(error)
            hint = ""
            if "time" in reason.lower():  # timed out, timeout
                hint = f"; if a step takes over {self._seconds:.0f} seconds, set a larger {TIMEOUT}"
            raise RankError(
                f"rank {self.rank} of {self.size} lost contact{self._describe_silent()}: {reason}. "
                f"Run the same command to resume from the last checkpoint{hint}"
            ) from None

    def _describe_silent(self) -> str:
        """Return " with rank N", naming the ranks that do not report a lost contact themselves.

        They have died or hang. The reports go through the store, which is a part of the first rank.
        If that rank hangs, the store does not answer, and rank 0 is named.
        """
        store, silent = self._store, [0]
        assert store is not None, "there are other ranks"

        def report() -> None:
            with contextlib.suppress(RuntimeError):
                store.set(f"lost/{self.rank}", "")
                time.sleep(REPORT_SECONDS)
                silent[:] = [rank for rank in range(self.size) if not store.check([f"lost/{rank}"])]

        reporter = threading.Thread(target=report, daemon=True)
        reporter.start()
        reporter.join(3 * REPORT_SECONDS)
        return f" with rank {', '.join(map(str, silent))}" if silent else ""


ALONE = Ranks()


def to_json_value(value: Any) -> Any:
    """Convert a value that JSON does not support: a dataclass to an object, others to strings."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)


def error_to_json(error: TransduceError) -> dict[str, list[Any]]:
    """Return the message in which an error is sent to the other ranks."""
    return {"error": [str(error), error.exit_code]}


def error_from_json(message: str, exit_code: int) -> TransduceError:
    """Return the error of the first rank, marked as reported."""
    error = TransduceError(message)
    error.exit_code, error.already_reported = exit_code, True
    return error


def close_process_group() -> None:
    """Close the connections; torch may abort a process that ends with open ones."""
    if dist.is_initialized():
        dist.destroy_process_group()


def first_line(error: Exception) -> str:
    """Return the first sentence of a torch error, without the location in its source."""
    line = str(error).strip().split("\n")[0]
    sentence = re.sub(r"^\[\S+\] ", "", line).split(". ")[0]
    return sentence[:200].rstrip(".")


def join() -> Ranks:
    """Join the ranks named by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as set by torchrun.

    Without these variables this process trains alone. After a restart torchrun keeps its store with
    the addresses of dead ranks, so the keys get a prefix with the number of the attempt.
    """
    size = os.environ.get("WORLD_SIZE", "1")
    if not size.isdecimal() or int(size) < 1:
        raise ConfigError(f"WORLD_SIZE is {size!r}; expected the number of processes")
    if int(size) == 1:
        return ALONE
    if dist.is_initialized():
        raise RankError("this process has already joined other ranks; run one training at a time")
    try:
        seconds = float(os.environ.get(TIMEOUT, DEFAULT_TIMEOUT))
    except ValueError:
        raise ConfigError(
            f"{TIMEOUT} is {os.environ[TIMEOUT]!r}; expected a number of seconds"
        ) from None
    try:
        store, rank, n_ranks = next(rendezvous("env://", timeout=timedelta(seconds=seconds)))
    except (RuntimeError, ValueError) as error:
        raise RankError(
            f"rank {os.environ.get('RANK')} cannot reach the others: {first_line(error)}; "
            "check MASTER_ADDR and MASTER_PORT"
        ) from None
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return Ranks(PrefixStore(f"attempt_{attempt}", store), rank, n_ranks, seconds)
