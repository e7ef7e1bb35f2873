import pytest

from transduce.grammar import generate


@pytest.mark.parametrize("split", ["train", "held-out"])
@pytest.mark.parametrize("task", ["copy", "reverse", "sort"])
def test_sequences_have_one_to_ten_letters(task: str, split: str) -> None:
    pairs = generate(task, 500, seed=1, split=split)
    assert {len(pair.source.split()) for pair in pairs} == set(range(1, 11))
