"""The longest text that can be traced."""

import pytest

from transduce.errors import DataError
from transduce.inspection.trace import check_length
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
