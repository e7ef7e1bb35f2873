"""The examples run and reach their stated results."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_labelled_f1_agrees_with_hand_arithmetic() -> None:
    parsing = load("parsing")
    gold = "(S (NP DT NN ) (VP VB (NP NNP ) ) )"
    assert parsing.spans(gold) == {
        ("NP", 0, 2): 1,
        ("NP", 3, 4): 1,
        ("VP", 2, 4): 1,
        ("S", 0, 4): 1,
    }
    assert parsing.labelled_f1([gold], [gold]) == 100
    other = "(S (NP DT NN ) (VP VB NNP ) )"  # three of four constituents, all correct
    assert parsing.labelled_f1([other], [gold]) == pytest.approx(100 * 2 * 3 / 7)
    assert parsing.labelled_f1(["(S (NP DT"], [gold]) == 0
    assert parsing.labelled_f1([") ("], [gold]) == 0


def test_no_test_sentence_is_trained_on_and_every_tree_has_a_leaf_for_each_word() -> None:
    parsing = load("parsing")
    test = parsing.treebank(50, seed=2)
    train = parsing.treebank(200, seed=1, without=frozenset(text for text, _ in test))
    assert not {text for text, _ in test} & {text for text, _ in train}
    for text, tree in train:
        assert parsing.spans(tree)["S", 0, len(text.split())] == 1


def test_the_parser_trains_on_a_small_treebank() -> None:
    assert 0 <= load("parsing").main(n_sentences=200, steps=5, n_test=5) <= 100


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_parser_learns_unseen_sentences_to_f1_85() -> None:
    assert load("parsing").main(n_sentences=8000, steps=800) > 85
