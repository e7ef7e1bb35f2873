import pytest
import torch

from tests.data.test_stream import random_examples
from transduce.config import ModelConfig
from transduce.errors import DataError, UsageError
from transduce.evaluate import bleu, exact_match, loss
from transduce.model import Transformer


def test_bleu_carries_its_signature_and_is_100_for_the_reference() -> None:
    texts = ["Il gatto nero dorme molto bene.", "Ti amo molto, amico mio."]
    score = bleu(texts, texts)
    assert score.value == pytest.approx(100)
    assert "tok:13a" in score.signature
    assert "version:" in score.signature


def test_bleu_depends_on_the_tokenisation_and_says_so() -> None:
    found, references = ["Ti amo molto, amico mio caro."], ["Ti amo molto , amico mio caro ."]
    assert bleu(found, references, "13a").value > bleu(found, references, "none").value
    assert "tok:none" in bleu(found, references, "none").signature


def test_an_unknown_tokenisation_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="unknown tokenisation 'moses': known: 13a, intl, char, zh, none"):
        bleu(["a"], ["a"], "moses")


def test_exact_match_is_the_percentage_of_equal_lines() -> None:
    assert exact_match(["a", "b", "c", "d"], ["a", "x", "c", "D"]).value == 50


@pytest.mark.parametrize("score", [bleu, exact_match])
def test_unequal_and_empty_lists_are_refused(score) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match="2 translations but 1 references"):
        score(["a", "b"], ["a"])
    with pytest.raises(DataError, match="nothing to evaluate"):
        score([], [])


def test_the_loss_of_a_model_that_knows_nothing_is_the_logarithm_of_the_vocabulary() -> None:
    model = Transformer(ModelConfig(vocab_size=300, n_layers=1, d_model=22, d_ff=37, n_heads=2)).eval()
    with torch.no_grad():
        model.source_embedding.weight.zero_()
    for batch_tokens in (64, 4096):
        value = loss(model, random_examples(50), batch_tokens).value
        assert value == pytest.approx(torch.tensor(300.0).log().item(), abs=1e-4)
