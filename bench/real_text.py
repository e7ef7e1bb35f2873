"""What real text costs a model: sentences, capitals, insertions, terms, missing content, speed.

    python bench/real_text.py --data DIR [--only PART] [--tatoeba MODEL SOURCE REFERENCE]

DIR holds Multi30k (test_2016_flickr, raw and *.lc.norm.tok); the model is
results/multi30k-en-de/model. PART is sentences, capitals, insertions, terms, content or speed.
`--tatoeba` adds a model that knows capitals, with its test files, to capitals and insertions.
Prints a JSON line per measurement and one per bar.
"""

import argparse
import gzip
import json
import random
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sacrebleu.metrics import BLEU

from transduce.decode.load import load_translator
from transduce.decode.quality import lacks_length
from transduce.decode.translator import Translator
from transduce.text.sentences import has_several_sentences, split_sentences
from transduce.text.terms import Glossary

MULTI30K = Path(__file__).parent.parent / "results" / "multi30k-en-de" / "model"
SEED = 2026
N_ALONE = 100  # sentences that the model alone translates: what it cannot read takes long
INSERTIONS = (
    "4711",
    "1984",
    "3.14",
    "12:30",
    "250",
    "https://example.org/a?b=1",
    "www.example.com",
    "mail@example.com",
    "😀",
    "🎉🎉",
    "{name}",
    "%s",
    "{{ user.name }}",
    "`make test`",
    "/usr/local/bin",
    "report.pdf",
)


def show(**row: Any) -> None:
    print(json.dumps(row, ensure_ascii=False), flush=True)


def bar(name: str, value: float, target: float, *, at_most: bool = False) -> None:
    holds = value <= target if at_most else value >= target
    show(bar=name, value=round(value, 4), target=target, holds=holds)


def read(path: Path) -> list[str]:
    if not path.exists():
        return gzip.decompress(Path(f"{path}.gz").read_bytes()).decode().split("\n")[:-1]
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def bleu(texts: Sequence[str], references: Sequence[str], *, lower: bool = False) -> float:
    metric = BLEU(tokenize="none", lowercase=lower, force=True)
    return float(metric.corpus_score(list(texts), [list(references)]).score)


def texts_of(translator: Translator, sources: Sequence[str], **options: Any) -> list[str]:
    return [each.text for each in translator.translate(list(sources), **options)]


def measure_sentences(translator: Translator, data: Path) -> None:
    """Join 2 to 5 sentences; compare boundaries, and the translation with that of each."""
    rng = random.Random(SEED)
    for name, language in (
        ("train.en", "en"),
        ("train.de", "de"),
        ("test_2016_flickr.en", "en"),
        ("test_2016_flickr.de", "de"),
        ("test_2016_flickr.lc.norm.tok.en", "en"),
        ("test_2016_flickr.lc.norm.tok.de", "de"),
    ):
        lines = [line.strip() for line in read(data / name)]
        n_right = n_found = n_gold = 0
        joined: list[tuple[str, list[str]]] = []
        for _ in range(1000):
            chosen = rng.sample(lines, rng.randint(2, 5))
            text = " ".join(chosen)
            gold = ends(chosen, [" "] * len(chosen))
            segments = split_sentences(text, language)
            found = ends([each.text for each in segments], [each.gap for each in segments])
            n_right += len(gold & found)
            n_found += len(found)
            n_gold += len(gold)
            if gold == found:
                joined.append((text, chosen))
        show(
            measurement=f"boundaries, {name}", precision=n_right / n_found, recall=n_right / n_gold
        )
        bar(f"sentence boundaries, F1, {name}", 2 * n_right / (n_found + n_gold), 0.97)
        if name.endswith("lc.norm.tok.en"):
            whole = texts_of(translator, [text for text, _ in joined])
            flat = iter(texts_of(translator, [each for _, chosen in joined for each in chosen]))
            parts = [" ".join(next(flat) for _ in chosen) for _, chosen in joined]
            same = statistics.mean(a == b for a, b in zip(whole, parts, strict=True))
            bar(f"translation of {len(joined)} lines = join of their sentences", same, 1.0)


def ends(texts: Sequence[str], gaps: Sequence[str]) -> set[int]:
    """Return where sentences end, but the last."""
    found, offset = set(), 0
    for text, gap in zip(texts, gaps, strict=True):
        offset += len(text) + len(gap)
        found.add(offset)
    return found - {max(found)}


def measure_capitals(
    translator: Translator, name: str, sources: Sequence[str], references: Sequence[str]
) -> None:
    """Compare capitals and title case with the plain text, lower-cased."""
    plain = bleu(texts_of(translator, sources), references, lower=True)
    show(measurement=f"{name}: plain", bleu=round(plain, 2))
    forms: dict[str, Callable[[str], str]] = {"upper": str.upper, "title": title_case}
    for form, change in forms.items():
        changed = [change(source) for source in sources]
        alone = texts_of(translator, changed[:N_ALONE], plain=True, beam=1, max_length=60)
        before = bleu(alone, references[:N_ALONE], lower=True)
        after = bleu(texts_of(translator, changed), references, lower=True)
        show(measurement=f"{name}: {form}", model_alone=round(before, 2), bleu=round(after, 2))
        bar(f"{name}: {form} case keeps of plain BLEU", after / plain, 0.9)


def title_case(text: str) -> str:
    return re.sub(r"[^\W\d_]+(?:['’][^\W\d_]+)?", lambda match: match[0].capitalize(), text)


def measure_insertions(
    translator: Translator, name: str, sources: Sequence[str], references: Sequence[str]
) -> None:
    """Insert one or two strings between the words of 500 sentences."""
    rng = random.Random(SEED)
    sources, references = sources[:500], references[:500]
    inserted: list[tuple[str, list[str]]] = []
    for source in sources:
        words = source.split()
        chosen = rng.sample(INSERTIONS, rng.randint(1, 2))
        places = sorted(rng.choices(range(len(words) + 1), k=len(chosen)))
        for shift, (place, what) in enumerate(zip(places, chosen, strict=True)):
            words.insert(place + shift, what)
        inserted.append((" ".join(words), chosen))
    outputs = texts_of(translator, [text for text, _ in inserted])
    n_kept = n_all = 0
    rest = []
    failed: Counter[str] = Counter()
    for (_, chosen), output in zip(inserted, outputs, strict=True):
        place = 0
        without = output
        for what in chosen:
            found = output.find(what, place)
            is_kept = found >= 0 and output.count(what) == 1
            n_kept += is_kept
            n_all += 1
            place = found + len(what) if found >= 0 else place
            without = without.replace(what, " ")
            failed[what] += not is_kept
        rest.append(" ".join(without.split()))
    show(measurement=f"{name}: lost insertions", by=dict(+failed))
    bar(f"{name}: insertions that come back once, in order", n_kept / n_all, 0.98)
    plain = bleu(texts_of(translator, sources), references)
    lost = plain - bleu(rest, references)
    bar(f"{name}: BLEU lost by the rest of the sentence", lost, 1.5, at_most=True)
    only = [" ".join(chosen) for _, chosen in inserted]
    unchanged = statistics.mean(
        a == b for a, b in zip(texts_of(translator, only), only, strict=True)
    )
    bar(f"{name}: lines of only insertions unchanged", unchanged, 1.0)


def measure_terms(translator: Translator, data: Path) -> None:
    """Ask for another noun in 300 sentences, and compare with the reference that has it."""
    sources = read(data / "test_2016_flickr.lc.norm.tok.en")
    references = read(data / "test_2016_flickr.lc.norm.tok.de")
    nouns = {
        "dog": "hund", "ball": "ball", "girl": "mädchen", "street": "straße", "water": "wasser",
        "beach": "strand", "child": "kind", "car": "auto", "bike": "fahrrad", "guitar": "gitarre",
        "hat": "hut", "boat": "boot", "table": "tisch", "horse": "pferd", "grass": "gras",
        "camera": "kamera", "book": "buch", "snow": "schnee", "field": "feld", "wall": "wand",
        "shirt": "hemd", "jacket": "jacke", "window": "fenster", "baby": "baby", "river": "fluss",
    }  # fmt: skip
    wanted = list(nouns.values())
    rng = random.Random(SEED)
    outputs = texts_of(translator, sources)
    cases: list[tuple[str, str, str, str, str, str]] = []
    for source, reference, output in zip(sources, references, outputs, strict=True):
        for english, german in nouns.items():
            has_one = source.split().count(english) == 1 and reference.split().count(german) == 1
            if has_one and output.split().count(german) == 1 and len(cases) < 300:
                other = rng.choice(
                    [noun for noun in wanted if noun not in (reference + output).split()]
                )
                cases.append((source, reference, output, english, german, other))
                break
    n_there = n_gone = 0
    after = []
    for source, _, _, english, german, other in cases:
        glossary = Glossary([(english, (other,))])
        [found] = texts_of(translator, [source], glossary=glossary)
        n_there += other in found.split()
        n_gone += german not in found.split()
        after.append(found)
    exchanged = [
        " ".join(other if word == german else word for word in reference.split())
        for _, reference, _, _, german, other in cases
    ]
    before = bleu([each[2] for each in cases], [each[1] for each in cases])
    now = bleu(after, exchanged)
    show(measurement="terms", sentences=len(cases), before=round(before, 2), after=round(now, 2))
    bar("terms: wanted word there", n_there / len(cases), 1.0)
    bar("terms: former word gone", n_gone / len(cases), 0.95)
    bar("terms: BLEU lost against the exchanged reference", before - now, 1.0, at_most=True)


def measure_content(translator: Translator, data: Path) -> None:
    """Delete a clause from 500 translations: is it noticed, and is it not in the others?"""
    sources = read(data / "test_2016_flickr.lc.norm.tok.en")
    rng = random.Random(SEED)
    translated = translator.translate(sources, check=True)
    damaged = []
    for each in translated:
        words = each.text.split()
        n = max(3, round(len(words) * rng.uniform(0.25, 0.5)))
        if len(words) >= 8 and len(damaged) < 500:
            start = rng.randint(1, len(words) - n - 1)
            damaged.append((each.source, " ".join((*words[:start], *words[start + n :]))))
    found = translator.score(damaged)
    recall = statistics.mean("content_missing" in each.flags for each in found)
    by_length = translator.translate(sources)
    alarms = statistics.mean("content_missing" in each.flags for each in translated)
    cheap_alarms = statistics.mean("content_missing" in each.flags for each in by_length)
    show(measurement="content: false alarms by length alone", share=round(cheap_alarms, 4))
    encode = translator.source_vocabulary.encode, translator.target_vocabulary.encode
    short = statistics.mean(
        lacks_length(source, text, encode[0](source), encode[1](text)) for source, text in damaged
    )
    show(measurement="content: deleted clauses flagged by length alone", share=round(short, 4))
    bar("content: deleted clauses flagged with --check", recall, 0.7)
    bar("content: false alarms with --check", alarms, 0.02, at_most=True)
    for flag in ("numbers_changed", "placeholder_missing", "repetition"):
        share = statistics.mean(flag in each.flags for each in translated)
        show(measurement=f"false alarms of {flag}", share=round(share, 4))


def measure_speed(translator: Translator, data: Path) -> None:
    """Compare plain text with what the model alone takes, in interleaved rounds of CPU time.

    Plain: one sentence a line, and no digit. A line whose numbers are wrong is translated again.
    """
    lines = read(data / "test_2016_flickr.lc.norm.tok.en")
    sources = [
        line
        for line in lines
        if not re.search(r"\d", line) and not has_several_sentences(line, "en")
    ]
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(7):
        for plain in (True, False):
            started = time.process_time()
            translator.translate(sources, plain=plain)
            seconds[plain].append(time.process_time() - started)
    ratio = statistics.median(
        new / old for old, new in zip(seconds[True], seconds[False], strict=True)
    )
    bar("CPU time of plain text, to that of the model alone", ratio, 1.03, at_most=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only")
    parser.add_argument("--tatoeba", nargs=3, type=Path)
    arguments = parser.parse_args()
    data = arguments.data
    translator = load_translator(MULTI30K, engine="auto")
    cased = [
        (
            "Multi30k",
            translator,
            *(read(data / f"test_2016_flickr.lc.norm.tok.{side}") for side in ("en", "de")),
        )
    ]
    if arguments.tatoeba:
        model, source, reference = arguments.tatoeba
        cased.append(
            ("Tatoeba", load_translator(model, engine="auto"), read(source), read(reference))
        )
    parts: dict[str, Callable[[], None]] = {
        "sentences": lambda: measure_sentences(translator, data),
        "capitals": lambda: [measure_capitals(t, n, s, r) for n, t, s, r in cased] and None,
        "insertions": lambda: [measure_insertions(t, n, s, r) for n, t, s, r in cased] and None,
        "terms": lambda: measure_terms(translator, data),
        "content": lambda: measure_content(translator, data),
        "speed": lambda: measure_speed(translator, data),
    }
    for name, measure in parts.items():
        if arguments.only in (None, name):
            measure()


if __name__ == "__main__":
    main()
