from itertools import islice

import numpy as np

from transduce.data.order import Position
from transduce.data.windows import encode_text, window_stream, windows_in_order
from transduce.text.vocabulary import EOS, SOS, learn_vocabulary

IDS = np.arange(4, 4 + 331, dtype=np.int32)


def test_documents_are_one_stream_separated_by_eos() -> None:
    documents = ["one two\nthree\n", "four\u2028five"]
    vocabulary = learn_vocabulary(
        ["one two three four five"], "char", 999, exact=False, is_text=True
    )
    ids = encode_text(documents, vocabulary).tolist()
    cut = ids.index(EOS)
    assert (ids.count(EOS), ids.count(SOS)) == (1, 2)
    assert ids[0] == ids[cut + 1] == SOS
    assert [vocabulary.decode(ids[:cut]), vocabulary.decode(ids[cut + 1 :])] == documents
    assert ids[1:cut] == vocabulary.encode(documents[0])


def test_every_token_predicts_the_next_and_windows_are_full() -> None:
    for batch, _ in islice(window_stream(IDS, 7, 35, 0, Position()), 30):
        assert batch.source is None
        assert (batch.target_out - batch.target_in == 1).all()
        assert batch.target_in.shape[1] == 7
        assert batch.n_tokens == batch.target_in.numel() <= 35


def test_an_epoch_has_no_token_twice_and_misses_less_than_two_windows() -> None:
    seen: list[int] = []
    for batch, after in window_stream(IDS, 7, 35, 0, Position()):
        seen += batch.target_out.flatten().tolist()
        if after.epoch:
            break
    assert len(seen) == len(set(seen))
    assert len(seen) > len(IDS) - 2 * 7 - 1


def test_each_epoch_has_its_own_offset_and_the_same_position_gives_the_same_batch() -> None:
    stream = list(islice(window_stream(IDS, 7, 35, 0, Position()), 25))
    starts = {int(batch.target_in[0, 0]) % 7 for batch, _ in stream}
    assert len(starts) > 1
    for k in (1, 9, 10, 17):
        again = next(window_stream(IDS, 7, 35, 0, stream[k - 1][1]))
        assert again[0].target_in.equal(stream[k][0].target_in)


def test_evaluation_reads_every_full_window_once() -> None:
    seen = [
        i for batch in windows_in_order(IDS, 7, 35) for i in batch.target_out.flatten().tolist()
    ]
    assert seen == list(range(5, 5 + 47 * 7))


def test_a_text_of_one_window_is_enough() -> None:
    batch, after = next(window_stream(IDS[:8], 7, 35, 0, Position()))
    assert batch.target_in.shape == (1, 7)
    assert after == Position(1, 0)
