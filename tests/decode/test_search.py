"""Search against brute force on hand-made tables of probabilities: no model, no torch.nn."""

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.decode.hypotheses import (
    ENDS_PER_BEAM,
    Hypothesis,
    Penalty,
    paper_penalty,
    power_penalty,
)
from transduce.decode.sampling import sampler
from transduce.decode.search import BLOCK, NEVER, Rows, Step, best_of, explore, search
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


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**31 - 1), st.integers(1, 8), st.integers(0, 2 * BLOCK), st.booleans())
def test_the_best_of_a_large_vocabulary_are_those_of_a_plain_topk(
    seed: int, n: int, n_rest: int, is_rest_best: bool
) -> None:
    """The largest values are anywhere: each in a block of its own, or after the last block."""
    size = 4 * n * BLOCK + n_rest
    values = torch.randn(5, size, generator=torch.Generator().manual_seed(seed))
    values[0] = torch.arange(size)  # all of them in the last blocks
    values[1, :: max(1, size // n)] += 9.0  # far apart
    if is_rest_best and n_rest:
        values[2, -1] += 9.0
    found, places = best_of(values, n)
    expected = values.topk(n, dim=1)
    assert torch.equal(found, expected.values)
    assert torch.equal(values.gather(1, places), expected.values)


PENALTIES = [power_penalty(0.0), power_penalty(1.0), power_penalty(2.0), paper_penalty(0.6)]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 999), min_size=1, max_size=5),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from(PENALTIES),
)
def test_a_search_that_ends_early_has_the_same_n_best(
    seeds: list[int], width: int, n_best: int, penalty: Penalty
) -> None:
    n_best = min(n_best, width)
    limits = [3 + seed % 7 for seed in seeds]
    whole = search(table_step, start(*seeds), limits, width=width, penalty=penalty)
    early = search(table_step, start(*seeds), limits, width=width, penalty=penalty, n_best=n_best)
    assert [each[:n_best] for each in early] == [each[:n_best] for each in whole]


def count_steps(seed: int, **how: Any) -> int:
    return sum(1 for _ in explore(table_step, start(seed), [9], width=3, **how))


def test_a_search_ends_with_twice_the_beam_of_ended_hypotheses_and_earlier_for_the_best() -> None:
    for seed in range(20):
        [found] = search(table_step, start(seed), [9], width=3)
        at_limit = [each for each in found if len(each.ids) == 8]
        assert len(found) >= ENDS_PER_BEAM * 3 or at_limit
        assert all(len(each.ids) <= 8 for each in found)
    longer = [count_steps(seed) - count_steps(seed, n_best=1) for seed in range(20)]
    assert min(longer) >= 0
    assert sum(longer) > 0
    assert [len(found) for found in search(table_step, start(*range(20)), [9] * 20)] == [1] * 20


@pytest.mark.parametrize("penalty", PENALTIES)
def test_more_ended_hypotheses_never_give_a_worse_best(penalty: Penalty) -> None:
    def best(seed: int, n_ends: int | None) -> float:
        how = {"width": 2, "penalty": penalty, "n_ends": n_ends}
        return search(table_step, start(seed), [9], **how)[0][0].score  # type: ignore[arg-type]

    scores = [[best(seed, n) for n in (2, None, 99)] for seed in range(60)]
    assert all(few <= rule <= all_of_them for few, rule, all_of_them in scores)


def test_a_search_goes_on_while_a_far_better_hypothesis_runs() -> None:
    """Two poor hypotheses end after two and three tokens, the good one after four."""
    table = {
        (): {4: 0.6, 5: 0.4},
        (4,): {4: 0.7, EOS: 0.3},
        (5,): {EOS: 0.9, 4: 0.1},
        (4, 4): {4: 0.99, 5: 0.01},
    }

    def step(ids: torch.Tensor, cache: Prefixes) -> tuple[torch.Tensor, Prefixes]:
        prefixes = [(*row, i) for row, i in zip(cache.rows, ids.tolist(), strict=True)]
        log_probs = torch.full((len(prefixes), VOCAB), NEVER)
        for row, prefix in enumerate(prefixes):
            following = table.get(prefix[2:], {EOS: 0.99, 4: 0.01})
            for token, p in following.items():
                log_probs[row, token] = math.log(p)
        return log_probs, Prefixes(tuple(prefixes))

    how = {"width": 2, "penalty": power_penalty(1.0)}
    [few] = search(step, start(0), [9], n_ends=2, **how)  # type: ignore[arg-type]
    [found] = search(step, start(0), [9], **how)  # type: ignore[arg-type]
    assert few[0].ids == (5,)
    assert found[0].ids == (4, 4, 4)
