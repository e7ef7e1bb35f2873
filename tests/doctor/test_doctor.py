"""The doctor's checks, one by one and together: exact counts and no false alarms."""

import json
import random
import re
from pathlib import Path

import pytest

from tests.commands import Run
from transduce.doctor import (
    FAULTS,
    Diagnosis,
    check_sample,
    checks,
    examine,
    faults,
    reason_not_to_clean,
    write_clean,
)
from transduce.doctor.languages import LanguageChecker
from transduce.doctor.repeats import (
    MAX_LOAD,
    MAX_SLOTS,
    DuplicateDetector,
    Fingerprints,
    near_fingerprints,
    near_key,
)
from transduce.errors import DataError, OutputError, UsageError
from transduce.grammar import generate
from transduce.text.corpus import Pair, PairFiles, PairList, PairTables

EN_IT = ("en", "it")


def corpus(n: int, seed: int = 1) -> list[Pair]:
    """Return `n` different pairs without a fault."""
    found: dict[str, Pair] = {}
    for pair in generate("en-it", 20 * n, seed=seed):
        found.setdefault(near_key(pair.source), Pair(pair.source, pair.target))
        if len(found) == n:
            return list(found.values())
    raise AssertionError("too few different pairs")


def counts(
    pairs: list[Pair], languages: tuple[str, str] | None = None, held_out: list[Pair] | None = None
) -> dict[str, int]:
    held = [PairList(held_out, name="valid")] if held_out else []
    return {
        finding.fault.name: finding.count
        for finding in examine(PairList(pairs), languages, held).findings
    }


@pytest.mark.parametrize(
    ("check", "source", "target"),
    [
        (checks.find_invalid_characters, "caf\ufffd", "café"),
        (checks.find_invalid_characters, "fine", "half \ud83d"),
        (checks.find_mojibake, "The cafÃ© is closed", "x"),
        (checks.find_mojibake, "x", "itâ€™s here"),
        (checks.find_mojibake, "MÃœNCHEN", "x"),
        (checks.find_mojibake, "x", "РџСЂРёРІРµС‚"),
        (checks.find_mojibake, "emoji ðŸ˜€", "x"),
        (checks.find_mojibake, "Ã\x85ngstrÃ¶m", "x"),
        (checks.find_mojibake, "Ã\x85re", "x"),
        (checks.find_mojibake, "a \x93quoted\x94 word", "x"),
        (checks.find_copy, "The dog is black.", "the dog is black"),
        (checks.find_copy, "これはとても長い文章です", "これはとても長い文章です"),
        (checks.find_excess_length, "word " * 251, "x"),
        (checks.find_excess_length, "x", "字" * 2001),
        (checks.find_different_numbers, "It cost 1,250 euros", "Costava 1.350 euro"),
        (checks.find_different_numbers, "In 1999", "Nel passato"),
        (checks.find_markup, "a <b>bold</b> word", "x"),
        (checks.find_markup, "x", "pane &amp; vino"),
        (checks.find_markup, "x", "a [[link]] here"),
        (checks.find_markup, "{\\an8}subtitle", "x"),
        (checks.find_markup, "[url=x]here[/url]", "x"),
        (checks.find_control_characters, "bell \x07", "x"),
        (checks.find_control_characters, "x", "zero \x00"),
    ],
)
def test_a_fault_is_found(check: checks.Check, source: str, target: str) -> None:
    assert check(Pair(source, target))


@pytest.mark.parametrize(
    ("check", "source", "target"),
    [
        (checks.find_invalid_characters, "naïve café 日本", "€"),
        (checks.find_mojibake, "«CAFÉ» À BIENTÔT… “ÇA VA”", "ÃO É NÃO, amanhã à noite"),
        (checks.find_mojibake, "Привет, Россия! РОССИЯ С нами", "Größe “Äpfel” – naïve…"),
        (checks.find_mojibake, "smørrebrød på ø", "l’été où il fut là"),
        (checks.find_mojibake, "one line\x85and another", "perché\u2029\x85no"),
        (checks.find_copy, "New York", "New York"),
        (checks.find_copy, "12 / 34 / 56", "12 / 34 / 56"),
        (checks.find_copy, "https://example.org/some/page", "https://example.org/some/page"),
        (checks.find_copy, "the dog is black", "il cane è nero"),
        (checks.find_excess_length, "word " * 200, "字" * 900),
        (
            checks.find_different_numbers,
            "It cost 1,250.50 euros",
            "Costava 1 250,50 euro".replace(" 250", "\u00a0250"),
        ),
        (checks.find_different_numbers, "He has 2 dogs, and 12 cats", "Ha due cani e 12 gatti"),
        (checks.find_different_numbers, "Room 007", "Stanza 7"),
        (checks.find_different_numbers, "in 2010 300 people", "300 persone nel 2010"),
        (checks.find_different_numbers, "٤٢ people", "42 persone"),
        (checks.find_markup, "a < b and b > c, I <3 you & me; R&D", "[sic] {x}"),
        (checks.find_control_characters, "tab\tand\x0bform\x0cfeed", "soft\u00adhyphen\u2028"),
    ],
)
def test_correct_pairs_are_not_flagged(check: checks.Check, source: str, target: str) -> None:
    assert check(Pair(source, target)) is None


REAL_SENTENCES = {
    "fr": [
        "Écris un essai sur « l'Amitié ».".replace("« ", "«\u00a0").replace(" »", "\u00a0»"),
        "Où est passé l’élève\u202f? À l’école, bien sûr\u202f!",
        "Cœur, œuvre, Noël, maïs, façon, forêt, hôtel…",
        "«\u00a0ÇA\u00a0», DIT-ELLE À L'ÉTÉ – 20\u00a0€",
    ],
    "de": [
        "Ein älterer Mann überquert die Straße.",
        "„Grüß Gott“, sagte sie – und lächelte…",
        "ÄRGER ÜBER DIE GRÖẞTE BRÜCKE",
    ],
    "ru": [
        "Привет, как дела сегодня?",
        "Она читает книгу в библиотеке.",
        "Мы идём в парк с друзьями.",
    ],
    "it": ["Perché è così? Città, caffè, più: «sarà»."],
    "pt": ["AMANHÃ À NOITE NÃO É TARDE, ÀS VEZES"],
    "pl": ["Zażółć gęślą jaźń: „tak”."],
    "ja": ["これはとても長い文章です。"],
}


def misread(text: str, encoding: str) -> str:
    """Decode the UTF-8 bytes of a text one by one with another encoding."""
    characters = []
    for byte in text.encode():
        try:
            characters.append(bytes([byte]).decode(encoding))
        except UnicodeDecodeError:
            characters.append(chr(byte))
    return "".join(characters)


def test_correct_text_of_many_languages_is_not_mojibake() -> None:
    for text in (text for texts in REAL_SENTENCES.values() for text in texts):
        assert checks.find_mojibake(Pair(text, text)) is None, text


@pytest.mark.parametrize(
    ("language", "encoding"),
    [
        (language, encoding)
        for encoding in ("cp1252", "latin-1")
        for language in ("fr", "de", "ru", "it", "pt", "pl", "ja")
    ]
    + [("ru", "cp1251")],
)
def test_text_decoded_with_the_wrong_encoding_is_mojibake(language: str, encoding: str) -> None:
    for text in REAL_SENTENCES[language]:
        damaged = misread(text, encoding)
        assert checks.find_mojibake(Pair("fine", damaged)), damaged
        assert checks.find_mojibake(Pair(damaged, "fine")), damaged


def test_a_ratio_is_odd_relative_to_the_typical_one_of_the_corpus() -> None:
    pair = Pair("x" * 30, "y" * 90)
    assert checks.find_odd_ratio(Pair("x" * 10, "y" * 90), 0.0) == "10 characters against 90"
    assert checks.find_odd_ratio(pair, 0.0) is None
    assert checks.find_odd_ratio(Pair("x" * 90, "y" * 20), checks.log_ratio(pair))
    assert checks.find_odd_ratio(Pair("No", "Assolutamente no"), 0.0) is None


def test_the_near_key_ignores_case_digits_punctuation_and_space() -> None:
    assert near_key("In 2019, Sales rose!") == near_key("in 2020 sales  rose")
    assert near_key("हिन्दी में") != near_key("हनद म")  # vowel signs are part of the word
    assert near_key("12:30") == "12:30"


def test_fault_names_are_unique_and_every_fault_is_listed() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert set(FAULTS) == {
        value for value in vars(faults).values() if isinstance(value, faults.Fault)
    }
    assert {fault for fault, _ in checks.CHECKS} < set(FAULTS)


def test_fingerprints_are_a_set() -> None:
    """Compare with Python's set."""
    rng = random.Random(1)
    known = [rng.getrandbits(64) for _ in range(20_000)]
    fingerprints, reference = Fingerprints(), set[int]()
    for number in rng.choices(known, k=40_000):
        assert fingerprints.add(number) == (number if number in reference else None)
        reference.add(number)
    assert fingerprints.n == len(reference)
    assert not fingerprints.is_full


def test_fingerprints_may_differ_in_their_last_bits() -> None:
    fingerprints = Fingerprints()
    assert fingerprints.add(0xABC << 48, 20) is None
    assert fingerprints.add((0xABC << 48) + 99, 20) == 0xABC << 48
    assert fingerprints.add((0xABC << 48) + (1 << 20), 20) is None
    assert fingerprints.n == 2


def test_a_full_set_of_fingerprints_still_finds_them_and_does_not_grow() -> None:
    """The memory is bounded by the number of slots."""
    fingerprints = Fingerprints(max_slots=1 << 13)
    rng = random.Random(2)
    numbers = [rng.getrandbits(64) for _ in range(20_000)]
    for number in numbers:
        fingerprints.add(number)
    assert fingerprints.is_full
    assert fingerprints.n_bytes <= 8 * ((1 << 13) + 1024)
    assert all(fingerprints.add(number) for number in numbers[: fingerprints.n])
    assert not any(fingerprints.add(number) for number in numbers[fingerprints.n :])


def test_all_fingerprints_of_a_corpus_of_any_size_stay_below_300_megabytes() -> None:
    assert 2 * 8 * (MAX_SLOTS + 1024) < 300e6
    assert MAX_LOAD * MAX_SLOTS > 10_000_000  # pairs, before the set is full


def test_duplicates_and_near_duplicates_are_distinguished() -> None:
    repeats = DuplicateDetector()

    def names(source: str, target: str) -> list[str]:
        pair = Pair(source, target)
        return [fault.name for fault, _ in repeats.notes(pair, near_fingerprints(pair))]

    assert names("A dog", "Un cane") == []
    assert names("A dog!", "Un cane") == ["near duplicate"]
    assert names("A dog", "Un cane") == ["duplicate"]
    assert names("A dog!", "Un cane") == ["duplicate"]
    assert names("A dog", "Un gatto") == []
    assert [names("A dog", target) for target in ("Il toro", "La rana", "Un topo", "Un lupo")] == [
        [],
        [],
        ["many translations"],
        ["many translations"],
    ]


def test_a_corpus_without_faults_has_no_findings() -> None:
    diagnosis = examine(PairList(corpus(300)), EN_IT)
    assert diagnosis.findings == ()
    assert diagnosis.n_usable == diagnosis.n_pairs == 300
    assert not diagnosis.are_swapped
    assert diagnosis.remarks == ()
    assert reason_not_to_clean(diagnosis) is None


def test_planted_faults_are_counted_exactly() -> None:
    pairs = corpus(600)
    clean, held_out = pairs[:500], pairs[500:]
    planted = [
        *clean,
        *clean[10:60],  # a duplicated block
        *held_out[:30],  # leaked
        Pair("", "Il cane"),
        Pair(" ", ""),
        *(
            Pair(
                f"{pair.source} now and then {pair.source}",
                f"{pair.source} now and then {pair.source}",
            )
            for pair in clean[:7]
        ),
        Pair("The dog\x07 sleeps again", "Il cane dorme ancora"),
        Pair("The caf\ufffd was closed", "Il bar era chiuso"),
        Pair("The woman sleeps on her new bed, and the man", "Sì"),
    ]
    random.Random(1).shuffle(planted)
    assert counts(planted, held_out=held_out) == {
        "blank": 2,
        "not UTF-8": 1,
        "leaked pair": 30,
        "copy": 7,
        "length ratio": 1,
        "duplicate": 50,
        "control characters": 1,
    }


def test_a_held_out_source_with_another_translation_is_a_leaked_source() -> None:
    clean = corpus(101)
    held_out = clean.pop()
    found = counts(
        [*clean, Pair(held_out.source.upper() + "!!", clean[0].target)], held_out=[held_out]
    )
    assert found == {"leaked source": 1}


def test_swapped_files_are_detected() -> None:
    pairs = [Pair(pair.target, pair.source) for pair in corpus(300)]
    diagnosis = examine(PairList(pairs), EN_IT)
    assert diagnosis.are_swapped
    assert reason_not_to_clean(diagnosis) == (
        "the two sides look swapped; "
        "exchange --source and --target, or give --languages, and run doctor again"
    )


def test_a_tenth_in_the_wrong_language_is_found_and_nothing_else() -> None:
    """Nine of ten long enough lines are found, and less than 1 % of the others are flagged."""
    pairs = corpus(1000)
    wrong = {
        i for i in range(0, 1000, 10) if sum(map(str.isalpha, pairs[(i + 1) % 1000].source)) >= 20
    }
    mixed = [
        Pair(pair.source, pairs[(i + 1) % 1000].source if i in wrong else pair.target)
        for i, pair in enumerate(pairs)
    ]
    judge = LanguageChecker(EN_IT)
    found = {i for i, pair in enumerate(mixed) if judge.note(i + 1, pair)}
    assert len(found & wrong) >= 0.9 * len(wrong) > 20
    assert len(found - wrong) < 10
    assert not judge.are_swapped


@pytest.mark.parametrize(
    ("languages", "reason"),
    [
        (
            None,
            "languages were not checked: the file names do not show them; give --languages en,de",
        ),
        (("en", "en"), "languages were not checked: both sides are en"),
        (("en", "xx"), "languages were not checked: py3langid does not support xx"),
    ],
)
def test_languages_that_cannot_be_checked_are_a_remark(
    languages: tuple[str, str] | None, reason: str
) -> None:
    assert examine(PairList(corpus(30)), languages).remarks == (reason,)


def test_languages_are_sampled_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.doctor.languages.MAX_CHECKED_IN_FULL", 100)
    pairs = [
        Pair(pair.source + " and they sleep now", pair.source + " and nothing more")
        for pair in corpus(300)
    ]
    (finding,) = examine(PairList(pairs), EN_IT).findings
    assert finding.fault is faults.WRONG_LANGUAGE
    assert finding.n_checked == 100 + 20
    assert finding.share > 0.9


def test_limits_are_reported_as_remarks(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = corpus(300)
    monkeypatch.setattr("transduce.doctor.repeats.MAX_SLOTS", 128)
    monkeypatch.setattr("transduce.doctor.repeats.MAX_HELD_OUT", 10)
    monkeypatch.setattr("transduce.doctor.measure.MAX_MEASURED", 200)
    remarks = examine(PairList(pairs), ("en", "en"), [PairList(pairs[:50], name="valid")]).remarks
    assert remarks[1:] == (
        "duplicates: only the first 97 distinct pairs were compared",
        "valid: only the first 10 pairs were compared",
        "the pairs: lengths and drift were measured on the first 200 lines",
    )


def write_files(folder: Path, pairs: list[Pair], targets: list[str] | None = None) -> PairFiles:
    folder.mkdir(exist_ok=True)
    source, target = folder / "train.en", folder / "train.it"
    source.write_bytes("".join(f"{pair.source}\n" for pair in pairs).encode())
    lines = targets if targets is not None else [pair.target for pair in pairs]
    target.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return PairFiles((source,), (target,))


def test_unequal_files_are_examined_up_to_the_drift(tmp_path: Path) -> None:
    pairs = corpus(400)
    pairs[20] = Pair("", "x")
    pairs[350] = Pair("", "x")  # after the drift, where pairs are not examined
    files = write_files(tmp_path, [*pairs[:200], *pairs[201:]], [pair.target for pair in pairs])
    diagnosis = examine(files)
    (unequal,), (place,) = diagnosis.unequal, diagnosis.drifts
    assert (unequal.source_lines, unequal.target_lines) == (399, 400)
    assert abs(place.line - 201) <= 50
    assert (place.shift, place.missing) == (1, 1)
    assert len(place.source) == len(place.target) == 6
    assert place.source[0] == (place.line - 3, pairs[place.line - 4].source)
    assert diagnosis.n_pairs == place.line - 1
    assert diagnosis.count(faults.BLANK) == 1
    assert reason_not_to_clean(diagnosis) == (
        "files of unequal length cannot be cleaned; "
        "fix the alignment at the place shown and run doctor again"
    )


def test_very_short_unequal_files_are_examined(tmp_path: Path) -> None:
    diagnosis = examine(write_files(tmp_path, [Pair("a", "b"), Pair("c", "d")], ["b"]))
    assert diagnosis.n_pairs == 1
    assert diagnosis.drifts == ()


def test_a_misaligned_stretch_of_equal_files_is_found_and_dropped(tmp_path: Path) -> None:
    pairs = corpus(1500)
    sources = [pair.source for pair in pairs]
    shifted = [*sources[:400], *sources[401:1000], "A line too many", *sources[1000:]]
    files = write_files(
        tmp_path / "in", [Pair(source, "") for source in shifted], [pair.target for pair in pairs]
    )
    diagnosis = write_clean(files, tmp_path / "out")
    assert [place.shift for place in diagnosis.drifts] == [1, 0]
    assert 599 - 30 < diagnosis.count(faults.MISALIGNED) < 599 + 60
    right = {(pair.source, pair.target) for pair in pairs}
    kept = PairFiles((tmp_path / "out/train.en",), (tmp_path / "out/train.it",)).read()
    assert sum((pair.source, pair.target) not in right for pair in kept) <= 10


def test_the_cleaned_copy_and_its_log_are_the_whole_corpus(tmp_path: Path) -> None:
    pairs = corpus(50)
    bad = [
        Pair("", "x"),
        pairs[3],
        Pair("the\x07 small dog", "il\x00 cane piccolo"),
        Pair("bad \ufffd here", "x y z"),
    ]
    files = write_files(tmp_path / "in", [*pairs, *bad])
    before = {path: path.read_bytes() for path in (*files.sources, *files.targets)}
    diagnosis = write_clean(files, tmp_path / "out")
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == {"train.en", "train.it", "dropped.jsonl"}
    kept = (out / "train.en").read_text().splitlines()
    assert kept == [*(pair.source for pair in pairs), "the small dog"]
    assert len((out / "train.it").read_text().splitlines()) == diagnosis.n_usable == 51
    log = [json.loads(line) for line in (out / "dropped.jsonl").read_text().splitlines()]
    assert [(row["line"], row["reason"]) for row in log] == [
        (51, "blank"),
        (52, "duplicate"),
        (54, "not UTF-8"),
    ]
    assert log[1]["source"] == pairs[3].source
    assert log[0]["file"] == files.name
    assert {path: path.read_bytes() for path in before} == before
    assert examine(PairFiles((out / "train.en",), (out / "train.it",))).n_usable == 51
    assert list(tmp_path.glob("*.partial*")) == []


def test_a_table_becomes_two_files(tmp_path: Path) -> None:
    table = tmp_path / "data.jsonl"
    pairs = [*corpus(30), Pair("half \ud83d", "mezzo")]
    table.write_text(
        "".join(json.dumps({"en": pair.source, "it": pair.target}) + "\n" for pair in pairs)
    )
    diagnosis = write_clean(PairTables((table,), EN_IT), tmp_path / "out")
    assert diagnosis.n_usable == 30
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "data.en",
        "data.it",
        "dropped.jsonl",
    }
    (row,) = [
        json.loads(line) for line in (tmp_path / "out/dropped.jsonl").read_text().splitlines()
    ]
    assert row["source"] == "half \ud83d"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    files = write_files(tmp_path / "in", corpus(30))
    with pytest.raises(
        OutputError,
        match="in is not empty; give a new folder for the cleaned",
    ):
        write_clean(files, tmp_path / "in")
    with pytest.raises(
        OutputError, match=r"train\.en is a file; expected a new folder for the cleaned copy"
    ):
        write_clean(files, files.sources[0])
    with pytest.raises(OutputError, match=r"cannot create .*x: Not a directory"):
        write_clean(files, files.sources[0] / "x")
    (tmp_path / "empty").mkdir()
    assert write_clean(files, tmp_path / "empty").n_usable == 30


def test_a_link_to_the_new_folder_is_followed_and_a_loop_is_refused(tmp_path: Path) -> None:
    files = write_files(tmp_path / "in", corpus(30))
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new"):
        link = tmp_path / f"to-{name}"
        link.symlink_to(name)
        assert write_clean(files, link).n_usable == 30
        assert link.readlink() == Path(name)
        assert len(list((tmp_path / name).iterdir())) == 3
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OutputError, match=r"cannot create .*loop: Too many levels of symbolic"):
        write_clean(files, tmp_path / "loop")


@pytest.mark.parametrize("name", ["", ".", "new/.."])
def test_the_current_folder_is_not_replaced_by_the_copy(
    transduce: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    files = write_files(tmp_path / "in", corpus(30))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    both = ("--source", files.sources[0], "--target", files.targets[0])
    code, out, err = transduce("doctor", *both, "--write", name)
    assert (code, out) == (73, "")
    assert err.endswith("is the current folder; give a new one for the cleaned copy\n")
    assert list((tmp_path / "empty").iterdir()) == []


def test_files_of_one_name_cannot_be_written_side_by_side(tmp_path: Path) -> None:
    files = PairFiles((tmp_path / "en" / "train.txt",), (tmp_path / "it" / "train.txt.gz",))
    with pytest.raises(
        UsageError,
        match=r"two files of the cleaned copy would be named train\.txt; give the input files",
    ):
        write_clean(files, tmp_path / "out")


def test_a_failure_leaves_no_folder_behind(tmp_path: Path) -> None:
    files = write_files(tmp_path / "in", [Pair("", "x")] * 3)
    assert reason_not_to_clean(write_clean(files, tmp_path / "out")) == (
        "none of the 3 pairs is usable; fix the findings of the report"
    )
    table = tmp_path / "broken.tsv"
    table.write_text("a\tb\nno tab\n")
    with pytest.raises(DataError, match=r"broken\.tsv, line 2: no tab"):
        write_clean(PairTables((table,)), tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"in", "broken.tsv"}


def test_several_files_are_examined_each_by_itself(tmp_path: Path) -> None:
    pairs = corpus(60)
    one = write_files(tmp_path / "one", pairs[:30])
    two = write_files(tmp_path / "two", [*pairs[30:], pairs[0]])
    diagnosis: Diagnosis = examine(PairFiles(one.sources + two.sources, one.targets + two.targets))
    (finding,) = diagnosis.findings
    assert finding.fault is faults.DUPLICATE
    assert (finding.examples[0].file, finding.examples[0].line) == (two.name, 31)


def test_examples_are_few_and_spread_over_the_corpus() -> None:
    pairs = corpus(300)
    blank = [Pair("", "x") if i % 2 else pair for i, pair in enumerate(pairs)]
    (finding,) = examine(PairList(blank)).findings
    lines = [example.line for example in finding.examples]
    assert len(lines) == 5
    assert lines == sorted(lines)
    assert lines[-1] > 100
    assert examine(PairList(blank)).findings == (finding,)


def test_a_sample_of_good_pairs_gives_no_warning() -> None:
    assert check_sample(corpus(300), EN_IT) == []
    assert check_sample(corpus(300)) == []


def test_a_sample_with_copies_gives_a_warning_with_share_and_line() -> None:
    pairs = [
        Pair(pair.source, pair.source if i % 10 else pair.target)
        for i, pair in enumerate(corpus(200))
    ]
    pairs = [
        Pair(pair.source + " and sleeps now", pair.target + " and sleeps now") for pair in pairs
    ]
    (warning,) = check_sample(pairs)
    assert re.fullmatch(
        r"90 % of the pairs are copies \(source = target\), e\.g\. line \d+", warning
    )


def test_a_corpus_of_copies_gives_a_warning_and_no_error() -> None:
    assert any(
        "are copies (source = target)" in warning
        for warning in check_sample(generate("copy", 200, seed=1))
    )


def test_a_sample_with_swapped_sides_gives_a_warning() -> None:
    pairs = [Pair(pair.target, pair.source) for pair in corpus(600)]
    warnings = check_sample(pairs, EN_IT)
    assert (
        warnings[0] == "the two sides look swapped: the source is mostly it, the target mostly en"
    )
    assert "have a side in the other language, e.g. line" in warnings[1]


def test_a_misaligned_sample_gives_a_warning() -> None:
    pairs = corpus(600)
    sources = [pair.source for pair in pairs]
    shifted = [
        Pair(a, b.target) for a, b in zip(sources[:200] + sources[201:], pairs, strict=False)
    ]
    (warning,) = [warning for warning in check_sample(shifted) if "misaligned" in warning]
    assert warning.startswith("source and target seem misaligned from about line ")
    assert warning.endswith(" on")


def test_a_blank_sample_gives_no_warning_and_a_single_pair_gives_one() -> None:
    assert check_sample([]) == check_sample([Pair("", "x"), Pair("y", " ")]) == []
    assert check_sample([Pair("A dog", "Un cane")]) == [
        "only 1 of 1 pairs is usable; the model will only learn this pair"
    ]


def test_the_sample_check_reads_10000_pairs_at_most() -> None:
    read = []

    def many():  # type: ignore[no-untyped-def]
        for i in range(20_000):
            read.append(i)
            yield Pair(f"number {i}", f"numero {i}")

    check_sample(many())
    assert len(read) == 10_000


def test_the_documentation_lists_every_fault_with_its_threshold_and_outcome() -> None:
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| ([\w -]+) \| .* \| ([\w. %]+) \| (dropped|kept) \|$", page, re.MULTILINE
    )
    shares = {
        fault.name: f"{100 * fault.alarm_threshold:g} %" if fault.alarm_threshold else "any"
        for fault in FAULTS
    }
    assert rows == [
        (fault.name, shares[fault.name], "dropped" if fault.is_dropped else "kept")
        for fault in FAULTS
    ]
