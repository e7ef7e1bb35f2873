"""The training batches of a prepared corpus: sentence pairs, or windows of running text."""

from functools import partial
from pathlib import Path

from transduce.config import Config
from transduce.data import prepared
from transduce.data.order import Examples, stream
from transduce.data.pairs import EncodedPairs, SampledPairs
from transduce.data.resampling import Sampler
from transduce.data.shards import TokenStream, open_shards
from transduce.data.windows import window_stream
from transduce.training.distributed import Ranks
from transduce.training.loop import Batches

VALID_SHARE = 0.1  # share of a running text, at its end, that is used for validation


def open_batches(folder: Path, config: Config, ranks: Ranks) -> Batches:
    """Return the batches of this rank, from the prepared corpus in `folder`."""
    budget, seed = config.data.batch_tokens, config.train.seed
    if config.model.kind == "encoder-decoder":
        examples = open_examples(folder, config)
        return partial(stream, examples, budget, seed, rank=ranks.rank, n_ranks=ranks.size)
    window = config.model.window
    train_ids, _ = split_text(TokenStream(open_shards(folder)), window)
    return partial(
        window_stream, train_ids, window, budget, seed, rank=ranks.rank, n_ranks=ranks.size
    )


def open_examples(folder: Path, config: Config) -> Examples:
    """Return the training pairs: encoded once, or segmented anew in each epoch (text.dropout)."""
    shards = open_shards(folder)
    if not config.text.dropout:
        return EncodedPairs(shards)
    sampler = Sampler(
        folder, prepared.vocabulary_files(folder), config.text.dropout, config.data.max_length
    )
    return SampledPairs(shards, sampler, config.train.seed)


def split_text(ids: TokenStream, window: int) -> tuple[TokenStream, TokenStream]:
    """Return the training part and the validation part of a text.

    The validation part is the last tenth, but at least one window.
    """
    n_valid = max(window + 1, int(len(ids) * VALID_SHARE))
    n_train = max(0, len(ids) - n_valid)
    return ids.between(0, n_train), ids.between(n_train, len(ids))
