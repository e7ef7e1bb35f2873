"""The longest text that can be traced, and the last position that can be seen."""

import pytest
import torch

from transduce.errors import DataError
from transduce.inspection.trace import Trace, check_length
from transduce.text.vocabulary import Vocabulary


def test_as_many_tokens_as_the_limit_can_be_traced_and_one_more_names_the_excess(
    vocabulary: Vocabulary,
) -> None:
    ids = vocabulary.encode("I love you")
    check_length(ids, len(ids), "the text", vocabulary)
    with pytest.raises(DataError) as caught:
        check_length(ids, len(ids) - 1, "the text", vocabulary)
    rest = vocabulary.decode(ids[-1:])
    assert str(caught.value) == (
        f"the text has {len(ids)} tokens, at most {len(ids) - 1} can be traced; shorten it, "
        f"the excess begins at {rest!r}"
    )


def test_masked_scores_are_finite_for_a_position_itself_and_the_ones_before_it() -> None:
    raw, q = torch.ones(1, 3, 3), torch.ones(1, 3, 4)
    names = ("dec.0.self", "enc.0.self", "dec.0.cross")
    tensors = {f"{name}.{what}": x for name in names for what, x in (("raw", raw), ("q", q))}
    made = Trace({"edits": []}, tensors)
    lower = [[True, False, False], [True, True, False], [True, True, True]]
    assert made["dec.0.self.masked"].isfinite().tolist() == [lower]
    for name in ("enc.0.self", "dec.0.cross"):
        assert torch.equal(made[f"{name}.masked"], raw / 2)
    unmasked = Trace({"edits": [{"op": "no_mask"}, {"op": "no_scale"}]}, tensors)
    assert torch.equal(unmasked["dec.0.self.masked"], raw)
