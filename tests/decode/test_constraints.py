"""Required terms and forbidden phrases: against brute force, and with the built-in model."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import pytest
import torch
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from transduce.config import DecodeConfig
from transduce.decode.constraints import Constraints, Progress, TermConstraint, allocate
from transduce.decode.engines.base import search_all
from transduce.decode.hypotheses import Hypothesis, power_penalty
from transduce.decode.load import load
from transduce.decode.options import TranslateOptions
from transduce.decode.search import NEVER, Rows, search
from transduce.decode.segmentation import Segmenter
from transduce.decode.translator import Translator
from transduce.decode.words import RequiredTerm, Words
from transduce.evaluation import metrics as evaluate
from transduce.grammar import generate
from transduce.text.terms import Glossary, contains_phrase
from transduce.text.vocabulary import EOS, SOS

# [PAD] [SOS] [EOS] [UNK], two tokens that begin a word and one that continues it
SURFACES = ["", "", "", "", " a", " b", "x"]
TEXT = (4, 5, 6)
SPELLINGS = {"a": (4,), "bx": (5, 6), "b b": (5, 5)}
HELD_OUT = list(generate("en-it", 500, seed=123, split="held-out"))
SOURCES = [pair.source for pair in HELD_OUT]


class Letters(Words):
    """A vocabulary made by hand."""

    def __init__(self) -> None:
        self.surfaces = SURFACES


WORDS = Letters()


def uniform_attention() -> torch.Tensor:
    """Return attention weights for more rows than any search has."""
    return torch.full((512, 5), 0.2)


def constraint(terms: Sequence[str]) -> TermConstraint | None:
    required = [
        RequiredTerm((term,), (), (SPELLINGS[term],), i, i + 1) for i, term in enumerate(terms)
    ]
    return TermConstraint(required, WORDS) if required else None


@dataclass(frozen=True)
class Prefixes:
    """The cache of a fake model: the seed of each row, and the tokens it has read."""

    rows: tuple[tuple[int, ...], ...]

    def select(self, rows: torch.Tensor, sentences: torch.Tensor | None = None) -> "Prefixes":
        return Prefixes(tuple(self.rows[i] for i in rows.tolist()))


def next_log_probs(seed: int, prefix: tuple[int, ...]) -> torch.Tensor:
    generator = torch.Generator().manual_seed(hash((seed, prefix)) % 2**31)
    logits = torch.full((len(SURFACES),), NEVER)
    logits[[EOS, *TEXT]] = 2 * torch.randn(4, generator=generator)
    return torch.log_softmax(logits, dim=-1)


def table_step(ids: torch.Tensor, cache: Prefixes) -> tuple[torch.Tensor, Prefixes]:
    rows = tuple((*prefix, token) for prefix, token in zip(cache.rows, ids.tolist(), strict=True))
    return torch.stack([next_log_probs(prefix[0], prefix[1:]) for prefix in rows]), Prefixes(rows)


def constrained(
    seeds: Sequence[int], terms: Sequence[Sequence[str]], limits: Sequence[int], width: int
) -> list[list[Hypothesis]]:
    constraints = Constraints([constraint(each) for each in terms], limits, uniform_attention)
    return search(
        table_step,
        Prefixes(tuple((seed,) for seed in seeds)),
        limits,
        width=width,
        select=constraints.select,
        rules=[constraints.rule],
        penalty=power_penalty(1.0),
    )


def has(ids: Sequence[int], terms: Sequence[str]) -> bool:
    """Return whether a text contains each term as whole words, as often as `terms` lists it."""
    words = "".join(SURFACES[i] for i in ids).split()
    return all(
        sum(words[i : i + n] == term.split() for i in range(len(words))) >= terms.count(term)
        for term in terms
        for n in [len(term.split())]
    )


TERMS = st.lists(st.sampled_from(["a", "bx"]), max_size=2).flatmap(
    lambda terms: st.sampled_from([terms, [*terms, "b b"]])
)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 999), TERMS, st.integers(1, 6))
@example(0, ["a", "bx"], 4)
@example(0, ["bx", "bx"], 5)
# "b bx b b": the second word seems to complete one term, then grows into the other.
@example(0, ["bx", "b b"], 6)
def test_a_wide_beam_finds_exactly_the_sequences_that_contain_the_terms(
    seed: int, terms: list[str], limit: int
) -> None:
    everything = [ids for n in range(limit) for ids in product(TEXT, repeat=n)]
    [found] = constrained([seed], [terms], [limit], width=len(everything) + 7)
    assert {hypothesis.ids for hypothesis in found} == {
        ids for ids in everything if has(ids, terms)
    }
    for hypothesis in found:
        written = (SOS, *hypothesis.ids, EOS)
        steps = [
            float(next_log_probs(seed, written[: t + 1])[written[t + 1]])
            for t in range(len(written) - 1)
        ]
        assert hypothesis.log_prob == pytest.approx(sum(steps), abs=1e-4)
        assert hypothesis.score == pytest.approx(sum(steps) / len(steps), abs=1e-4)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 999), TERMS, st.integers(1, 4), st.integers(0, 5))
def test_a_narrow_beam_finds_a_sequence_with_all_terms(
    seed: int, terms: list[str], width: int, room: int
) -> None:
    limit = sum(len(SPELLINGS[term]) for term in terms) + room + 1
    [found] = constrained([seed], [terms], [limit], width)
    assert found
    assert all(has(hypothesis.ids, terms) for hypothesis in found)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 999), TERMS, st.integers(2, 8)), min_size=1, max_size=5),
    st.integers(1, 4),
)
def test_a_sentence_gets_the_same_result_in_a_batch_as_alone_with_or_without_terms(
    sentences: list[tuple[int, list[str], int]], width: int
) -> None:
    seeds, terms, limits = zip(*sentences, strict=True)
    together = constrained(seeds, terms, limits, width)
    for i, (seed, own, limit) in enumerate(sentences):
        assert together[i] == constrained([seed], [own], [limit], width)[0]
        if not own:
            plain = search(
                table_step, Prefixes(((seed,),)), [limit], width=width, penalty=power_penalty(1.0)
            )
            assert together[i] == plain[0]


def write(terms: Sequence[str], text: Sequence[int]) -> list[Progress]:
    """Return the progress before and after each token, all of log-probability -2."""
    required = constraint(terms)
    assert required is not None
    steps = [Progress()]
    for token in text:
        steps.append(required.advance(steps[-1], token, -2.0, uniform_attention()[0].tolist()))
    return steps


def allowed_tokens(terms: Sequence[str], limit: int, text: Sequence[int]) -> set[int]:
    """Return the tokens that the rule allows after a text."""
    constraints = Constraints([constraint(terms)], [limit], uniform_attention)
    prefix = (SOS, *text)
    constraints._progress[0, prefix] = write(terms, text)[-1]
    log_probs = torch.full((1, len(SURFACES)), NEVER)
    log_probs[0, [EOS, *TEXT]] = -1.0
    constraints.rule(Rows(torch.tensor([prefix]), torch.tensor([0])), log_probs)
    return {token for token in (EOS, *TEXT) if log_probs[0, token] > NEVER}


@pytest.mark.parametrize("terms", [["a"], ["bx"], ["a", "bx"], ["b b"], ["bx", "b b"]])
def test_a_token_is_allowed_if_and_only_if_the_terms_can_still_be_met_in_the_room_that_is_left(
    terms: list[str],
) -> None:
    """By brute force; with a token that needs the last room, and with one of room to spare."""
    for limit in range(2, 6):
        complete = [ids for n in range(limit) for ids in product(TEXT, repeat=n) if has(ids, terms)]
        beginnings = {ids[:n] for ids in complete for n in range(len(ids) + 1)}
        for text in beginnings:
            if len(text) + 1 == limit:
                continue  # only [EOS] is possible, whatever the rule says
            possible = {ids[len(text)] for ids in complete if ids[: len(text)] == text != ids}
            possible |= {EOS} if text in complete else set()
            assert allowed_tokens(terms, limit, text) == possible, (limit, text)


def test_a_term_whose_last_word_is_lengthened_is_as_if_it_had_never_been_met() -> None:
    before, met, lengthened = write(["a"], (4, 6))
    assert (met.bank, met.met) == (1, {0})
    assert met.bonus > 0
    assert (lengthened.bank, lengthened.met) == (before.bank, before.met) == (0, frozenset())
    assert lengthened.bonus == pytest.approx(0)
    first, _, second = write(["a", "a"], (4, 4, 6))[1:]
    assert (second.bank, second.met) == (first.bank, first.met)
    assert second.bonus == pytest.approx(first.bonus)


def test_a_term_that_ends_in_a_sign_stays_met_whatever_follows() -> None:
    words = Letters()
    words.surfaces = [*SURFACES, " c!"]
    required = TermConstraint([RequiredTerm(("c!",), (), ((7,),), 0, 1)], words)
    met = required.advance(Progress(), 7, -2.0, [0.2])
    assert required.advance(met, 6, -2.0, [0.2]).met == met.met == {0}


def test_a_term_is_credited_with_nine_tenths_of_its_cost_less_what_attention_looked_elsewhere() -> (
    None
):
    *_, met = write(["bx"], (5, 6))  # two tokens of log-probability -2; attention 0.2 to its word
    assert met.bonus == pytest.approx(math.log(0.2) + 0.9 * 4)
    *_, met = write(["a"], (4,))
    assert met.bonus == pytest.approx(math.log(0.2) + 0.9 * 2)


def test_banks_take_turns_fullest_first_and_impossible_offers_come_last() -> None:
    bank = torch.tensor([[0, 0, 0, 1, 1, 2, 2]])
    score = torch.tensor([[-1.0, -2.0, -3.0, -4.0, NEVER, -9.0, -8.0]])
    # the best of each: bank 2 first, then by score; then the second of each; then the third
    assert allocate(bank, score).tolist() == [[6, 0, 3, 5, 1, 2, 4]]


def test_one_bank_is_plain_beam_search() -> None:
    score = torch.tensor([[-3.0, -1.0, NEVER, -2.0]])
    assert allocate(torch.zeros(1, 4, dtype=torch.long), score).tolist() == [[1, 3, 0, 2]]


def test_each_sentence_has_banks_of_its_own() -> None:
    bank = torch.tensor([[0, 1, 1], [3, 3, 0]])
    score = torch.tensor([[-1.0, -5.0, -4.0], [-5.0, -4.0, -1.0]])
    assert allocate(bank, score).tolist() == [[2, 0, 1], [1, 2, 0]]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return load(engine="torch")


def terms_of(
    n: int, chance: random.Random, source: str, target: str, links: Sequence[tuple[int, int]]
) -> Glossary | None:
    """Return a glossary of up to n words of a sentence that are linked to one word only."""
    from_words, to_words = source.split(), target.split()
    lower = [word.lower() for word in from_words]
    one = [
        (i, j)
        for i, j in links
        if sum(i == k for k, _ in links)
        == sum(j == k for _, k in links)
        == lower.count(lower[i])
        == 1
        and from_words[i].isalpha()
        and from_words[i] != to_words[j].strip("?")  # what stays the same is no term
        and "'" not in to_words[j]
    ]
    chosen = chance.sample(one, min(n, len(one)))
    return (
        Glossary([(from_words[i], (to_words[j].strip("?"),)) for i, j in chosen])
        if chosen
        else None
    )


@pytest.mark.parametrize("n", [150, pytest.param(500, marks=pytest.mark.slow)])
def test_two_terms_a_sentence_are_all_met_and_bleu_is_not_lower(
    translator: Translator, n: int
) -> None:
    """Held-out sentences of the grammar, which knows the alignment."""
    how = TranslateOptions(translator.settings(beam=4))
    chance = random.Random(0)
    glossaries = [
        terms_of(2, chance, pair.source, pair.target, pair.alignment) for pair in HELD_OUT[:n]
    ]
    sentences = []
    for source, glossary in zip(SOURCES[:n], glossaries, strict=True):
        segmenter = Segmenter(translator.folders)
        [prepared] = segmenter.prepare([source], replace(how, glossary=glossary))
        [reading] = prepared.parts[0].readings
        sentences.append(segmenter.reader.require_terms(reading, how).search_input)
    assert sum(len(sentence.terms) for sentence in sentences) > 1.5 * n
    found = [
        translator.target_vocabulary.decode(hypotheses[0].ids)
        for hypotheses in search_all(translator.torch_engine, sentences, how)
    ]
    for text, glossary in zip(found, glossaries, strict=True):
        assert glossary is None or all(
            contains_phrase(text, term.targets[0]) for term in glossary.terms
        )
    plain = [translation.text for translation in translator.translate(SOURCES[:n], beam=4)]
    references = [pair.target for pair in HELD_OUT[:n]]
    assert evaluate.bleu(found, references).value >= evaluate.bleu(plain, references).value


# English nouns with an Italian word that no training text contains; the grammar uses another one.
RARE = {"girl": "fanciulla", "boy": "fanciullo", "house": "dimora", "dog": "cagnolino"}


def test_a_word_the_model_would_not_choose_stands_where_its_own_word_would(
    translator: Translator,
) -> None:
    """Not beside it, and not at the end of the sentence."""
    chosen = [
        (text, word)
        for text in SOURCES
        for word in RARE
        if text.lower().strip("?").split().count(word) == 1
    ][:10]
    glossary = Glossary([(word, (target,)) for word, target in RARE.items()])
    texts = [text for text, _ in chosen]
    plain = translator.translate(texts, details=True)
    n_right = 0
    for (text, word), own, found in zip(
        chosen, plain, translator.translate(texts, glossary=glossary), strict=True
    ):
        source_place = text.lower().strip("?").split().index(word)
        links = [tuple(map(int, link.split("-"))) for link in own.alignment.split()]
        places = [target for source, target in links if source == source_place]
        assert contains_phrase(found.text, RARE[word])
        n_right += found.text.lower().strip("?").split().index(RARE[word]) in places
    assert len(chosen) == 10
    assert n_right >= 8


def test_the_score_of_a_translation_with_terms_is_the_one_the_model_gives_it(
    translator: Translator,
) -> None:
    glossary = Glossary([(word, (target,)) for word, target in RARE.items()])
    found = translator.translate(["The girl sees the dog", "A boy sleeps"], glossary=glossary)
    again = translator.score([(each.source, each.text) for each in found])
    assert [each.score for each in found] == pytest.approx([each.score for each in again], abs=1e-4)


def test_a_sentence_without_the_term_is_translated_as_without_a_glossary(
    translator: Translator,
) -> None:
    glossary = Glossary([("cat", ("micio",))])
    texts = [*SOURCES[:15], "Your cat is a lovely cat", *SOURCES[15:30]]
    for with_terms, plain in zip(
        translator.translate(texts, glossary=glossary), translator.translate(texts), strict=True
    ):
        if not contains_phrase(plain.source, "cat"):
            assert with_terms.text == plain.text
            assert with_terms.score == pytest.approx(plain.score, abs=1e-4)
        assert with_terms.missing == ()
    [found] = translator.translate(["Your cat is a lovely cat"], glossary=glossary)
    assert found.text.split().count("micio") == 2, "as often as in the source"


@pytest.mark.parametrize(
    "targets", [("micio", "gattino"), ("gattino", "micio"), ("micio bello", "gattino")]
)
def test_one_of_several_translations_of_a_term_is_written(
    translator: Translator, targets: tuple[str, ...]
) -> None:
    [found] = translator.translate(["The cat sleeps"], glossary=Glossary([("cat", targets)]))
    assert any(contains_phrase(found.text, target) for target in targets)
    assert found.missing == ()


def test_a_term_without_a_translation_is_kept_as_it_is(translator: Translator) -> None:
    glossary = Glossary([("Acme Corp", ()), ("dog", ())])
    texts = ["Acme Corp sleeps", "I love Acme Corp and my dog", "Does Acme Corp love the dog?"]
    for found in translator.translate(texts, glossary=glossary):
        assert "Acme Corp" in found.text
        assert "dog" not in found.source or contains_phrase(found.text, "dog")
        assert found.missing == ()


def test_a_term_without_a_place_is_reported_and_the_rest_is_translated_without_it(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither substitution nor the search, whose limit leaves no room, gets it in."""
    monkeypatch.setattr("transduce.decode.substitution.MIN_MASS", 2.0)
    glossary = Glossary([("cat", ("supercalifragilistico",))])
    [found] = translator.translate(["The cat sleeps"], glossary=glossary, max_length=3)
    [plain] = translator.translate(["The cat sleeps"], max_length=3)
    assert (found.text, found.missing) == (plain.text, ("cat",))
    assert "missing_term" in found.flags
    assert "missing_term" not in plain.flags


def test_a_term_that_holds_a_forbidden_word_is_reported(translator: Translator) -> None:
    glossary = Glossary([("cat", ("bel Micio",)), ("sleeps", ("dorme",))])
    [found] = translator.translate(["The cat sleeps"], glossary=glossary, forbid=["micio"])
    assert found.missing == ("cat",)
    assert not contains_phrase(found.text, "micio")
    assert contains_phrase(found.text, "dorme")


# Without shrinking, which would take minutes.
@settings(deadline=None, max_examples=15, phases=[Phase.explicit, Phase.generate])
@given(st.data())
def test_a_forbidden_phrase_is_never_written_however_it_is_spelled(
    translator: Translator, data: st.DataObject
) -> None:
    """Phrases of one to three words that the model would write, in any case; up to 8 at once."""
    some = data.draw(st.lists(st.sampled_from(HELD_OUT), min_size=1, max_size=8))
    phrases = []
    for pair in some:
        words = pair.target.replace("?", " ?").split()
        start = data.draw(st.integers(0, len(words) - 1))
        phrase = " ".join(words[start : start + data.draw(st.integers(1, 3))])
        phrases.append(data.draw(st.sampled_from([str, str.upper, str.lower, str.title]))(phrase))
    for beam in (1, 4):
        for found in translator.translate(
            [pair.source for pair in some], beam=beam, forbid=phrases
        ):
            assert not any(contains_phrase(found.text, phrase) for phrase in phrases), (
                found.text,
                phrases,
            )


def test_forbidding_other_words_changes_nothing(translator: Translator) -> None:
    plain = translator.translate(SOURCES[:40])
    assert [
        t.text for t in translator.translate(SOURCES[:40], forbid=["zzz", "gatt", "dor me"])
    ] == [t.text for t in plain]


PROTECTED = [
    "7",
    "1,234.56",
    "12:30",
    "https://example.org/a?b=c",
    "www.example.org",
    "maria.rossi@example.co.uk",
]
PROTECTED += ["{name}", "${name}", "%s", "%d", "%(name)s", "%-5.2f"]


@pytest.mark.parametrize(
    "form", ["I love {}", "My friend sees {} every day", "Does Maria love {}?", "{} sleeps"]
)
def test_numbers_addresses_and_placeholders_survive(translator: Translator, form: str) -> None:
    texts = [form.replace("{}", token) for token in PROTECTED]
    for token, found in zip(PROTECTED, translator.translate(texts, protect=True), strict=True):
        assert token in found.text
        assert found.missing == ()


def test_several_protected_words_survive_together(translator: Translator) -> None:
    [found] = translator.translate(
        ["I see 3 cats, {name} and maria@example.org at 12:30"], protect=True
    )
    for token in ("3", "{name}", "maria@example.org", "12:30"):
        assert token in found.text


def test_settings_that_are_not_given_are_those_of_the_model(translator: Translator) -> None:
    assert translator.settings() == translator.decode_config
    assert translator.settings(beam=7) == DecodeConfig(
        **{**translator.decode_config.model_dump(), "beam": 7}
    )
