"""The demos learn what they promise."""

import re
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_demo_learns_italian_and_says_ti_amo_molto_in_four_steps() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "transduce", "demo"], capture_output=True, text=True, check=True
    )
    exact_match = re.search(r"held-out exact match: ([\d.]+)", done.stdout)
    assert exact_match is not None
    assert float(exact_match[1]) >= 95
    assert re.search(r"held-out BLEU: [\d.]+ +\(nrefs:1\|case:mixed", done.stdout)
    steps = re.findall(r"^  (\d)  (\[SOS\].*?) +->  (\S+)", done.stdout, re.MULTILINE)
    assert steps == [
        ("1", "[SOS]", "Ti"),
        ("2", "[SOS] Ti", "amo"),
        ("3", "[SOS] Ti amo", "molto"),
        ("4", "[SOS] Ti amo molto", "[EOS]"),
    ]
    assert done.stdout.splitlines()[-1] == "I love you very much  ->  Ti amo molto"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_language_model_learns_to_write_sentences_it_never_read() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "transduce", "demo", "--lm"],
        capture_output=True,
        text=True,
        check=True,
    )
    losses = [
        float(loss) for loss in re.findall(r"validation loss +([\d.]+)   perplexity", done.stderr)
    ]
    assert losses[-1] < 2.9
    assert re.search(r"[1-9]0? of 10 are not in the training text", done.stdout)
    assert len(done.stdout.splitlines()) == 12
