"""Real text through a translator: sentences, capitals, copies, terms, and what is flagged."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import Run, line_messages
from transduce.decode.composition import ComposedPart, gap_after
from transduce.decode.load import load_translator
from transduce.decode.options import Sampling
from transduce.decode.segmentation import Part
from transduce.decode.translator import Translator
from transduce.model_folder import BUILTIN
from transduce.text.terms import Glossary

MULTI30K = Path(__file__).parents[2] / "results" / "multi30k-en-de" / "model"
CAPTIONS = [
    "a man in a blue shirt is standing on a ladder cleaning a window .",
    "two young guys with shaggy hair look at their hands while hanging out in the yard .",
    "a little girl climbing into a wooden playhouse .",
    "two men are at the stove preparing food .",
    "a dog runs through the snow .",
]


@pytest.fixture(scope="module", params=["torch", "ctranslate2"])
def captions(request: pytest.FixtureRequest) -> Translator:
    return load_translator(MULTI30K, engine=request.param)


def texts_of(translator: Translator, texts: list[str], **options: object) -> list[str]:
    return [each.text for each in translator.translate(texts, **options)]  # type: ignore[arg-type]


def test_a_line_of_sentences_is_the_join_of_their_translations(captions: Translator) -> None:
    alone = texts_of(captions, CAPTIONS)
    [joined] = captions.translate([" ".join(CAPTIONS)])
    assert joined.text == " ".join(alone)
    assert (joined.flags, "sentences" in joined.notes) == ((), True)
    [spaced] = captions.translate([f" {CAPTIONS[0]}   {CAPTIONS[3]}\t{CAPTIONS[4]} "])
    assert spaced.text == f" {alone[0]}   {alone[3]}\t{alone[4]} "


def test_without_splitting_a_line_is_one_segment(transduce: Run) -> None:
    text = "The cat sleeps. I love you"
    code, out, err = transduce("translate", "--no-split", "--json", stdin=f"{text}\n".encode())
    assert code == 0, err
    assert '"notes": []' in out or "sentences" not in out
    translator = load_translator(engine="torch")
    [whole] = translator.translate([text], split=False)
    assert "sentences" not in whole.notes


def test_capitals_are_put_back_on_what_the_model_reads_without(captions: Translator) -> None:
    plain = texts_of(captions, CAPTIONS)
    for changed, restore in ((str.upper, str.upper), (title_case, title_case)):
        found = captions.translate([changed(text) for text in CAPTIONS])
        same = [each.text.lower() == text.lower() for each, text in zip(found, plain, strict=True)]
        assert sum(same) >= 4, [each.text for each in found]
        assert all("recased" in each.notes for each in found)
        assert sum(each.text == restore(each.text) for each in found) >= (
            5 if restore is str.upper else 0
        )


def title_case(text: str) -> str:
    return re.sub(r"[^\W\d_]+", lambda match: match[0].capitalize(), text)


INSERTED = [
    "https://example.org/a?b=1",
    "mail@example.com",
    "{name}",
    "%s",
    "`make test`",
    "/usr/local/bin",
    "😀",
    "4711",
    "3.14",
    "12:30",
]


@pytest.mark.parametrize("inserted", INSERTED)
def test_what_is_unmistakable_comes_back_once_wherever_it_stands(
    captions: Translator, inserted: str
) -> None:
    words = CAPTIONS[3].split()
    texts = [" ".join((*words[:i], inserted, *words[i:])) for i in range(len(words) + 1)]
    for found in captions.translate(texts):
        assert found.text.count(inserted) == 1, found.text
        assert "placeholder_missing" not in found.flags
        assert "numbers_changed" not in found.flags


def test_several_of_them_stay_in_order(captions: Translator) -> None:
    text = "two men {a} are at the stove %s with 4711 pans , see www.example.org ."
    [found] = captions.translate([text])
    places = [found.text.index(part) for part in ("{a}", "%s", "4711", "www.example.org")]
    assert places == sorted(places)


PLACED = [  # by attention
    "a {x} little girl running at on the shore of a ~/x beach .",
    "two 1 000 000 men --opt in army uniforms stand <b> next to a woman .",
    "<b> a dog runs through the snow .",
    "two men are at the stove https://example.org preparing food .",
    "I <b>love</b> you",
]


def test_a_line_has_the_same_translation_whatever_its_neighbours(captions: Translator) -> None:
    alone = [text for line in PLACED for text in texts_of(captions, [line])]
    assert texts_of(captions, PLACED) == alone
    assert texts_of(captions, PLACED[::-1])[::-1] == alone


@pytest.mark.parametrize(
    "line", ["4711", "https://example.org 😀", "{name} %s", "12:30 - 13:45", "...", "→ 5 %"]
)
def test_a_line_with_nothing_to_translate_passes_through(captions: Translator, line: str) -> None:
    [found] = captions.translate([line])
    assert (found.text, found.flags) == (line, ())
    assert found.notes == ("nothing_to_translate",)


def test_a_line_of_codes_that_the_model_changes_is_copied(captions: Translator) -> None:
    line = "AB-4711x 12kW word0x word1y Q7"
    [found] = captions.translate([line])
    assert (found.text, found.flags) == (line, ())


@pytest.mark.parametrize("text", ["{a\x9bb}", "`a\x9b31m`", "https://a.org/\x90b", "\x9b31m dog"])
def test_control_characters_are_removed_from_what_is_copied_too(
    captions: Translator, text: str
) -> None:
    [found] = captions.translate([f"a dog runs {text} now ."])
    assert not re.search("[\x7f-\x9f]", found.text)
    assert "control_characters" in found.notes


def test_control_characters_are_removed_from_a_prefix() -> None:
    [found] = load_translator(MULTI30K, engine="torch").translate([CAPTIONS[4]], prefix="e\x9bin")
    assert found.text.startswith("ein ")


def test_no_line_break_of_a_glossary_gets_into_a_translation(captions: Translator) -> None:
    glossary = Glossary([("dog", ("zie\u2028ge",)), ("snow", ("schn\x85ee\x9b",))])
    [found] = captions.translate([CAPTIONS[4]], glossary=glossary)
    assert "zie ge" in found.text
    assert "schn ee" in found.text
    assert len(found.text.splitlines()) == 1
    assert "\x9b" not in found.text


def test_a_term_stands_where_the_models_own_word_stood(captions: Translator) -> None:
    for text, term, own in (
        (CAPTIONS[4], ("dog", "ziege"), "hund"),
        (CAPTIONS[3], ("stove", "klavier"), "herd"),
        (CAPTIONS[0], ("ladder", "wolke"), "leiter"),
    ):
        [plain] = captions.translate([text])
        [found] = captions.translate([text], glossary=Glossary([(term[0], (term[1],))]))
        assert own in plain.text, plain.text
        assert found.text == plain.text.replace(own, term[1])
        assert (found.missing, found.flags) == ((), ())


@pytest.mark.parametrize(
    "phrase", ["node.js", "{name}", "https://example.org/a", "😀", "dog.pdf 😀"]
)
def test_a_term_wins_over_the_protection_of_a_part_that_it_covers(
    captions: Translator, phrase: str
) -> None:
    glossary = Glossary([(phrase, ("ziege",))])
    [found] = captions.translate([f"a {phrase} runs through the snow ."], glossary=glossary)
    assert "ziege" in found.text.split(), found.text
    assert phrase not in found.text
    assert not {"missing_term", "placeholder_missing"} & set(found.flags)
    [alone] = captions.translate([phrase], glossary=glossary)
    assert "ziege" in alone.text


def test_a_link_wins_over_a_term_that_is_a_part_of_it(captions: Translator) -> None:
    text = "a dog runs to https://example.org/dog now ."
    for form in ("ziege", "dog"):
        [found] = captions.translate([text], glossary=Glossary([("dog", (form,))]))
        assert "https://example.org/dog" in found.text
        assert form in found.text.split()
        assert found.flags == ()


def test_the_form_of_a_term_that_fits_best_is_chosen(captions: Translator) -> None:
    glossary = Glossary([("girl", ("kleine jungen", "kleiner junge", "junge"))])
    [found] = captions.translate([CAPTIONS[2]], glossary=glossary)
    assert re.search(r"\bjunge", found.text), found.text
    assert "mädchen" not in found.text


def test_a_deleted_clause_is_flagged_and_the_whole_translation_is_not(
    captions: Translator,
) -> None:
    whole = captions.translate(CAPTIONS[:2], check=True)
    assert [each.flags for each in whole] == [(), ()]
    for each in whole:
        words = each.text.split()
        cut = " ".join((*words[:3], *words[-3:]))
        [found] = captions.score([(each.source, cut)])
        assert "content_missing" in found.flags


def test_both_engines_give_the_same_on_real_text() -> None:
    texts = [
        " ".join(CAPTIONS[:3]),
        CAPTIONS[0].upper(),
        title_case(CAPTIONS[1]),
        "two men {a} are at the stove %s preparing 12 meals .",
        "a dog named https://example.org runs .",
        "",
        *PLACED,
    ]
    glossary = Glossary([("dog", ("ziege",)), ("men", ("frauen",))])
    found = [
        texts_of(load_translator(MULTI30K, engine=engine), texts, glossary=glossary)
        for engine in ("torch", "ctranslate2")
    ]
    assert found[0] == found[1]


def test_real_text_needs_no_torch(tmp_path: Path) -> None:
    """Capitals, copies, numbers and terms work with CTranslate2 alone."""
    (tmp_path / "terms.csv").write_text("cat,micio\n")
    texts = "The cat sleeps. THE DOG SLEEPS\nI love {name} 35 www.example.org\nThe cat sleeps\n"
    (tmp_path / "in.txt").write_text(texts)
    program = (
        "import sys; from pathlib import Path; "
        "from transduce.decode.load import load_translator; "
        "from transduce.text.terms import read_glossary; "
        "t = load_translator(engine='ctranslate2'); "
        "g = read_glossary(Path(sys.argv[1])); "
        "texts = open(sys.argv[2]).read().splitlines(); "
        "found = t.translate(texts, glossary=g, check=True); "
        "print([each.text for each in found], 'torch' in sys.modules)"
    )
    arguments = [sys.executable, "-c", program, tmp_path / "terms.csv", tmp_path / "in.txt"]
    load_translator(engine="ctranslate2").translate(["I love you"])  # it is converted now
    result = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("False\n"), result.stdout
    assert "micio" in result.stdout
    assert "{name}" in result.stdout


def test_a_glossary_that_matches_no_line_is_reported(transduce: Run, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("zebra\tzebra\n")
    stdin = b"I love you\nThe cat sleeps\n"
    code, _, err = transduce("translate", "--glossary", tmp_path / "terms.tsv", stdin=stdin)
    assert code == 0
    message = "no glossary entry matches any line; check the glossary's language and spelling"
    assert f"transduce: warning: {message}\n" in err
    _, _, err = transduce("translate", "--glossary", tmp_path / "terms.tsv", stdin=b"")
    assert message not in err, "there was no line to match"
    linked = b"I love you, https://example.org/zebra\n"
    _, _, err = transduce("translate", "--glossary", tmp_path / "terms.tsv", stdin=linked)
    assert message in err
    (tmp_path / "terms.tsv").write_text("cat\tmicio\n")
    _, _, err = transduce("translate", "--glossary", tmp_path / "terms.tsv", stdin=stdin)
    assert message not in err


def test_words_not_seen_in_training_are_shown_as_they_were_written(transduce: Run) -> None:
    _, _, err = transduce("translate", stdin=b"THE ZEBRA SLEEPS\n")
    shown = [line for line in line_messages(err) if "not seen" in line]
    assert shown
    assert shown[0].endswith(": ZEBRA")


def test_lines_of_a_test_set_are_evaluated_whole(transduce: Run, tmp_path: Path) -> None:
    (tmp_path / "test.en").write_text("The cat sleeps. I love you very much\nI love you\n")
    (tmp_path / "test.it").write_text("Il gatto dorme. Ti amo molto\nTi amo\n")
    files = ("--source", tmp_path / "test.en", "--reference", tmp_path / "test.it")
    code, _, err = transduce("evaluate", *files)
    assert code == 0, err
    note = "1 of 2 lines have several sentences; lines are translated whole here"
    assert f"transduce: note: {note}" in err
    system = ("--system", "a=" + str(tmp_path / "test.it"))
    code, _, err = transduce("compare", *files, *system, "--system", f"b={BUILTIN}")
    assert note in err


def test_after_a_prefix_a_link_is_kept_and_the_prefix_too(transduce: Run) -> None:
    """With sampling nothing can be required: what is missing is flagged."""
    text = b"The cat sees https://example.org\nThe cat sees 4711 dogs\n"
    for options in ((), ("--sample",), ("--engine", "torch", "--beam", 1)):
        code, out, err = transduce("translate", "--prefix", "Il gatto", *options, stdin=text)
        assert code == 0, err
        first, second = out.splitlines()
        assert first.startswith("Il gatto")
        assert second.startswith("Il gatto")
        if not options:
            assert first.count("https://example.org") == 1


def test_alternatives_repair_nothing() -> None:
    translator = load_translator(engine="torch")
    [found] = translator.translate(["The cat sees 4711 dogs"], prefix="Il", alternatives=3)
    assert all(each.text.startswith("Il") for each in found.alternatives)


def test_terms_that_the_search_cannot_meet_are_given_up(transduce: Run) -> None:
    options = ("--prefix", "Il", "--max-length", 3)
    code, out, err = transduce("translate", *options, stdin=b"The cat https://example.org\n")
    assert code == 0, err
    assert "NaN" not in err
    assert "placeholder" in err or "https://example.org" in out


def test_a_term_in_a_sentence_in_capitals_has_capitals() -> None:
    translator = load_translator(engine="ctranslate2")
    glossary = Glossary([("cat", ("micio",))])
    [found] = translator.translate(["THE CAT SLEEPS"], glossary=glossary)
    assert found.text == "IL MICIO DORME"


def test_a_term_in_a_heading_has_a_capital_like_its_other_words() -> None:
    translator = load_translator(engine="ctranslate2")
    glossary = Glossary([("cat", ("micio",))])
    [found] = translator.translate(["I Love Your Beautiful Cat"], glossary=glossary)
    assert "recased" in found.notes
    assert found.text.endswith(" Micio"), found.text


def test_repaired_samples_do_not_depend_on_the_lines_before() -> None:
    translator = load_translator(engine="torch")
    lines = ["The cat sees 4711 dogs", "I love {name} 35"]
    together = translator.translate(lines, sampling=Sampling(temperature=1.5))
    alone = translator.translate(lines[1:], sampling=Sampling(temperature=1.5, first=1))
    assert together[1].text == alone[0].text


def test_a_stream_of_real_text_is_the_translation_of_its_sentences(captions: Translator) -> None:
    text = f"{CAPTIONS[4]}  see https://example.org ! {CAPTIONS[3]}"
    streamed = "".join(captions.stream(text))
    assert streamed.count("https://example.org") == 1
    assert streamed.startswith(texts_of(captions, [CAPTIONS[4]], beam=1)[0] + "  ")


def test_sentences_of_a_script_without_spaces_get_spaces_in_their_translation() -> None:
    part = Part("猫が好き。", "", ())
    for text, following, gap in (
        ("I like cats.", "I like dogs.", " "),
        ("我喜欢猫。", "我喜欢狗。", ""),
        ("I like cats.", "", ""),
    ):
        after = ComposedPart(Part("犬も。", "", ()), following)
        assert gap_after(ComposedPart(part, text), after) == gap
    assert gap_after(ComposedPart(part, "I like cats."), None) == ""
    spaced = ComposedPart(Part("One.", "  ", ()), "Uno.")
    assert gap_after(spaced, spaced) == "  "
    assert gap_after(ComposedPart(Part("One", "", ()), "Uno"), spaced) == ""


def test_alignments_count_words_over_sentences_without_a_space(captions: Translator) -> None:
    [found] = captions.translate(["a dog runs .猫 a man sleeps ."], details=True)
    n_source, n_target = len(found.source.split()), len(found.text.split())
    links = [tuple(map(int, link.split("-"))) for link in found.alignment.split()]
    assert all(i < n_source and j < n_target for i, j in links)
