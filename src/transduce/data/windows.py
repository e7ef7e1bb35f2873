"""Running text as batches for a language model: full windows of consecutive tokens."""

import math
import re
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from transduce.data.batch import Batch
from transduce.data.order import Position, batches_of_rank
from transduce.data.shards import Ids, TokenStream
from transduce.text.vocabulary import EOS, SOS, Vocabulary

LINES = re.compile(r"[^\n]*\n|[^\n]+")

Text = Ids | TokenStream  # in memory, or on disk


def encode_text(documents: Sequence[str], vocabulary: Vocabulary) -> Ids:
    """Encode documents as one sequence of ids, with [SOS] before each and [EOS] between two."""
    ids: list[int] = []
    for number, document in enumerate(documents):
        ids += [EOS, SOS] if number else [SOS]
        # A line feed is always a token of its own, so lines can be encoded separately.
        for line in vocabulary.encode_batch(LINES.findall(document)):
            ids += line
    return np.array(ids, dtype=np.int32)


def collate_windows(ids: Text, starts: Sequence[int], window: int) -> Batch:
    """Return the windows that begin at `starts` as a batch; every token predicts the next one."""
    rows = np.stack([ids[start : start + window + 1] for start in starts]).astype(np.int64)
    tokens = torch.from_numpy(rows)
    return Batch(None, None, tokens[:, :-1], tokens[:, 1:], n_tokens=len(starts) * window)


def window_stream(
    ids: Text,
    window: int,
    batch_tokens: int,
    seed: int,
    start: Position,
    rank: int = 0,
    n_ranks: int = 1,
) -> Iterator[tuple[Batch, Position]]:
    """Yield the batches of a rank endlessly from a position on, each with the position after it.

    In each epoch the text is cut into full windows from a new random offset, and the windows are
    shuffled. Offset and order depend only on the seed and the epoch.
    """
    batches = batches_of_windows(ids, window, batch_tokens, seed, start)
    for starts, after in batches_of_rank(batches, rank, n_ranks):
        yield collate_windows(ids, starts, window), after


def batches_of_windows(
    ids: Text, window: int, batch_tokens: int, seed: int, start: Position
) -> Iterator[tuple[list[int], Position]]:
    """Yield the start offsets of the windows of each batch, and the position after it."""
    epoch, _, first = start
    size = max(1, batch_tokens // window)
    while True:
        random = np.random.Generator(np.random.PCG64([seed, epoch]))
        offset = int(random.integers(min(window, len(ids) - window)))
        starts = random.permutation(np.arange(offset, len(ids) - window, window))
        n_batches = math.ceil(len(starts) / size)
        for i in range(first, n_batches):
            after = Position(epoch, 0, i + 1) if i + 1 < n_batches else Position(epoch + 1)
            yield starts[i * size : (i + 1) * size].tolist(), after
        epoch, first = epoch + 1, 0


def windows_in_order(ids: Text, window: int, batch_tokens: int) -> Iterator[Batch]:
    """Yield every full window once, without overlap: for evaluation."""
    starts = list(range(0, len(ids) - window, window))
    size = max(1, batch_tokens // window)
    for i in range(0, len(starts), size):
        yield collate_windows(ids, starts[i : i + size], window)
