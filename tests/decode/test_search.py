"""Search against brute force on hand-made tables of probabilities: no model, no torch.nn."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.decode.hypotheses import Hypothesis, Penalty, paper_penalty, power_penalty
from transduce.decode.sampling import sampler
from transduce.decode.search import NEVER, Rows, Step, search
from transduce.text.vocabulary import EOS, SOS

VOCAB = 6  # [PAD] [SOS] [EOS] [UNK] and two tokens, 4 and 5
TEXT = (4, 5)


@dataclass(frozen=True)
class Prefixes:
    """The cache of a fake model: the seed of each row, and the tokens it has read."""

    rows: tuple[tuple[int, ...], ...]

    def select(self, rows: torch.Tensor, sentences: torch.Tensor | None = None) -> "Prefixes":
        return Prefixes(tuple(self.rows[i] for i in rows.tolist()))


def next_log_probs(seed: int, prefix: tuple[int, ...]) -> torch.Tensor:
    """Return a random but fixed distribution over the next token: [EOS], 4 and 5 only."""
    generator = torch.Generator().manual_seed(hash((seed, prefix)) % 2**31)
    logits = torch.full((VOCAB,), float("-inf"))
    logits[[EOS, *TEXT]] = 2 * torch.randn(3, generator=generator)
    return torch.log_softmax(logits, dim=-1)


def table_step(ids: torch.Tensor, cache: Prefixes) -> tuple[torch.Tensor, Prefixes]:
    rows = tuple((*prefix, token) for prefix, token in zip(cache.rows, ids.tolist(), strict=True))
    return torch.stack([next_log_probs(prefix[0], prefix[1:]) for prefix in rows]), Prefixes(rows)


def start(*seeds: int) -> Prefixes:
    return Prefixes(tuple((seed,) for seed in seeds))


def brute_force(
    seed: int, max_length: int, penalty: Penalty
) -> list[tuple[float, tuple[int, ...]]]:
    """Return every target of at most max_length tokens, [EOS] included, with its score."""
    found = []
    for n in range(max_length):
        for ids in product(TEXT, repeat=n):
            sequence = (SOS, *ids, EOS)
            log_prob = sum(
                next_log_probs(seed, sequence[: t + 1])[sequence[t + 1]].item()
                for t in range(len(sequence) - 1)
            )
            found.append((log_prob / penalty(n + 1), ids))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("penalty", [power_penalty(0.0), power_penalty(1.0), paper_penalty(0.6)])
@pytest.mark.parametrize("seed", range(8))
def test_a_wide_beam_finds_what_brute_force_finds(seed: int, penalty: Penalty) -> None:
    everything = brute_force(seed, 5, penalty)
    [found] = search(table_step, start(seed), [5], width=len(everything), penalty=penalty)
    assert [hypothesis.ids for hypothesis in found] == [ids for _, ids in everything]
    assert [hypothesis.score for hypothesis in found] == pytest.approx(
        [score for score, _ in everything], abs=1e-5
    )


def greedy(seed: int, max_length: int) -> tuple[int, ...]:
    """Return the greedy target, found by a plain loop."""
    prefix: tuple[int, ...] = (SOS,)
    while len(prefix) < max_length:
        best = int(next_log_probs(seed, prefix).argmax())
        if best == EOS:
            break
        prefix = (*prefix, best)
    return prefix[1:]


@pytest.mark.parametrize("seed", range(20))
def test_a_beam_of_one_is_greedy(seed: int) -> None:
    [[found]] = search(table_step, start(seed), [7])
    assert found.ids == greedy(seed, 7)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 999), min_size=1, max_size=6), st.integers(1, 5), st.data())
def test_a_sentence_gets_the_same_result_in_a_batch_as_alone(
    seeds: list[int], width: int, data: st.DataObject
) -> None:
    limits = [data.draw(st.integers(1, 8)) for _ in seeds]
    together = search(table_step, start(*seeds), limits, width=width, penalty=power_penalty(1.0))
    alone = [
        search(table_step, start(seed), [limit], width=width, penalty=power_penalty(1.0))[0]
        for seed, limit in zip(seeds, limits, strict=True)
    ]
    assert together == alone


def test_a_hypothesis_cut_at_the_maximum_length_is_marked_truncated() -> None:
    for seed in range(30):
        [found] = search(table_step, start(seed), [3], width=2)
        for hypothesis in found:
            assert len(hypothesis.ids) <= 2
            chose_to_end = int(next_log_probs(seed, (SOS, *hypothesis.ids)).argmax()) == EOS
            assert hypothesis.truncated == (len(hypothesis.ids) == 2 and not chose_to_end)


def test_a_forbidden_token_is_never_written() -> None:
    def never_5(rows: Rows, log_probs: torch.Tensor) -> torch.Tensor:
        return log_probs.index_fill_(1, torch.tensor([5]), NEVER)

    for seed in range(10):
        [found] = search(table_step, start(seed), [6], width=3, rules=[never_5])
        assert found
        assert all(5 not in hypothesis.ids for hypothesis in found)


def test_penalties_by_hand() -> None:
    assert power_penalty(1.0)(7) == 7
    assert power_penalty(0.5)(9) == 3
    assert paper_penalty(0.6)(1) == 1
    assert paper_penalty(1.0)(7) == 2


def chain_step(probabilities: list[float]) -> Step[Prefixes]:
    """Return a step function with the same distribution over [EOS], 4 and 5 at every step."""
    log_probs = torch.full((VOCAB,), float("-inf"))
    log_probs[[EOS, *TEXT]] = torch.tensor(probabilities).log()

    def step(ids: torch.Tensor, cache: Prefixes) -> tuple[torch.Tensor, Prefixes]:
        return log_probs.repeat(len(ids), 1), cache

    return step


def draw(n: int, probabilities: list[float], **how: Any) -> list[Hypothesis]:
    generators = [np.random.default_rng([0, i]) for i in range(n)]
    found = search(
        chain_step(probabilities), start(*range(n)), [9] * n, select=sampler(generators, **how)
    )
    return [hypotheses[0] for hypotheses in found]


def test_temperature_zero_takes_the_best_and_ignores_the_seed() -> None:
    assert {hypothesis.ids for hypothesis in draw(20, [0.2, 0.5, 0.3], temperature=0.0)} == {
        (4,) * 8
    }


def test_top_k_of_one_takes_the_best() -> None:
    assert {hypothesis.ids for hypothesis in draw(20, [0.2, 0.5, 0.3], top_k=1)} == {(4,) * 8}


def test_top_p_keeps_the_fewest_tokens_that_reach_p() -> None:
    drawn = {
        token for hypothesis in draw(200, [0.2, 0.5, 0.3], top_p=0.6) for token in hypothesis.ids
    }
    assert drawn == {4, 5}
    assert {hypothesis.ids for hypothesis in draw(20, [0.2, 0.5, 0.3], top_p=0.49)} == {(4,) * 8}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_follow_the_tempered_distribution(temperature: float) -> None:
    """10,000 first tokens; each share within 4.9 standard deviations of its probability.

    Three temperatures, three shares each. The seed is fixed; fewer than 1 of 100,000 would fail.
    """
    probabilities = torch.tensor([0.2, 0.5, 0.3])
    expected = torch.softmax(probabilities.log() / temperature, dim=-1)
    drawn = [
        (*hypothesis.ids, EOS)[0]
        for hypothesis in draw(10_000, probabilities.tolist(), temperature=temperature)
    ]
    for token, p in zip((EOS, *TEXT), expected.tolist(), strict=True):
        deviation = (p * (1 - p) / 10_000) ** 0.5
        assert abs(drawn.count(token) / 10_000 - p) < 4.9 * deviation


def test_the_draws_of_a_sentence_do_not_depend_on_the_batch() -> None:
    assert draw(20, [0.2, 0.5, 0.3])[:7] == draw(7, [0.2, 0.5, 0.3])
