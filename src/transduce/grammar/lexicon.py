"""The words of the English-Italian grammar, read from the tables of `lexicon.toml`.

A noun has one *kind* (person, food...). Verbs and adjectives list the kinds, or the single nouns,
that they go with. `lexicon.toml` explains the columns.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from transduce.grammar import inflection
from transduce.grammar.inflection import Gender, ending

_TABLES: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)


def _words(text: str) -> tuple[str, ...]:
    """Split a list of words, and replace the names of groups by the words of the group."""
    groups = _TABLES["groups"]
    return tuple(
        word
        for name in text.split()
        for word in (_words(groups[name]) if name in groups else (name,))
    )


# ---- Nouns ----


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun in singular and plural.

    `feminine` is the Italian form for a woman, if English has one word for both sexes.
    """

    kind: str
    english: str
    english_plural: str | None  # None: no plural
    is_mass: bool  # never "a" bread
    italian: str
    italian_plural: str
    gender: Gender
    plural_gender: Gender
    feminine: tuple[str, str] | None

    def forms(self, plural: bool, *, of_a_woman: bool = False) -> tuple[str, str, Gender]:
        """Return English form, Italian form and Italian gender."""
        english = (self.english_plural or "") if plural else self.english
        if of_a_woman and self.feminine:
            return english, self.feminine[plural], "f"
        if plural:
            return english, self.italian_plural, self.plural_gender
        return english, self.italian, self.gender


def _noun(kind: str, entry: str) -> Noun:
    """Parse an entry of the table of nouns."""
    english, gender_letter, italian, *woman = entry.split()
    english, _, plural_note = english.partition("/")  # an irregular plural, mass or singular
    italian, _, irregular = italian.partition("/")
    irregular, _, turns_feminine = irregular.partition(":")
    gender: Gender = "f" if gender_letter == "f" else "m"
    english_plural: str | None = plural_note or inflection.english_s(english)
    if plural_note in ("mass", "singular"):
        english_plural = None
    return Noun(
        kind=kind,
        english=english,
        english_plural=english_plural,
        is_mass=plural_note == "mass",
        italian=italian,
        italian_plural=irregular or inflection.italian_plural(italian),
        gender=gender,
        plural_gender="f" if turns_feminine else gender,
        feminine=(woman[0], inflection.italian_plural(woman[0])) if woman else None,
    )


NOUNS = tuple(_noun(kind, entry) for kind, entries in _TABLES["nouns"].items() for entry in entries)
NOUN = {noun.english: noun for noun in NOUNS}
NAMES: tuple[tuple[str, Gender], ...] = tuple(_TABLES["names"].items())


def nouns_of(kinds: tuple[str, ...]) -> tuple[Noun, ...]:
    """Return the nouns of some kinds; a single noun is named by its English word."""
    return tuple(noun for noun in NOUNS if noun.kind in kinds or noun.english in kinds)


# ---- Adjectives ----


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective and what it may describe.

    `is_prenominal` adjectives precede the noun in Italian; in English all do. `attributes` are the
    kinds or nouns it may modify, `predicates` those it may describe after "is". `degrees` are the
    words that may precede it (very, too). `is_state` is true of temporary states: "Why are you
    tired?", "always tired".
    """

    english: str
    italian: str
    is_prenominal: bool
    attributes: tuple[str, ...]
    predicates: tuple[str, ...]
    degrees: tuple[str, ...]
    is_state: bool
    masculine_plural: str

    def form(self, gender: Gender, plural: bool) -> str:
        """Return the full form, used after the noun and after "is"."""
        if self.italian.endswith("e"):
            return self.italian[:-1] + ("i" if plural else "e")
        if plural and gender == "m" and self.masculine_plural:
            return self.masculine_plural
        stem = self.italian[:-1]
        if plural and stem[-1] in "cg":
            stem += "h"
        elif plural and gender == "m":
            stem = stem.removesuffix("i")
        return stem + ending(gender, plural)

    def form_before(self, gender: Gender, plural: bool, following: str) -> str:
        """Return the form before a noun: bello and buono shorten like the articles."""
        if self.italian == "bello":
            return inflection.with_article_ending("be", gender, plural, following)
        if self.italian == "buono" and not plural:
            return inflection.like_un("buon", gender, following)
        return self.form(gender, plural)


_PRENOMINAL = ("bello", "buono", "grande", "piccolo", "vecchio", "giovane", "caro")


def _adjective(english: str, row: Mapping[str, Any]) -> Adjective:
    """Parse a row of the table of adjectives."""
    return Adjective(
        english=english,
        italian=row["italian"],
        is_prenominal=row["italian"] in _PRENOMINAL,
        attributes=_words(row["attributes"]),
        predicates=_words(row.get("predicates", row["attributes"])),
        degrees=_words(row.get("degrees", "")),
        is_state=row.get("state", False),
        masculine_plural=row.get("plural", ""),
    )


ADJECTIVES = tuple(_adjective(english, row) for english, row in _TABLES["adjectives"].items())
ADJECTIVE = {adjective.english: adjective for adjective in ADJECTIVES}


# ---- Verbs ----

Person = Literal[0, 1, 2, 3, 4, 5]  # io, tu, lui or lei, noi, voi, loro


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb with its forms, and what it goes with.

    English has base, third person and past; Italian has infinitive, six present forms and the
    participle (masculine singular). `particle` is the preposition before the English object (wait
    *for*). `past` is "" for states, whose past would be an imperfect in Italian.

    `subjects` and `objects` are kinds or nouns; a verb without objects is intransitive.
    `complements` and `adverbs` may follow, with underscores for spaces.
    """

    lemma: str  # the English dictionary form: wait for
    english: str
    third: str
    past: str
    particle: str
    infinitive: str
    present: tuple[str, ...]
    participle: str
    with_essere: bool
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    complements: tuple[str, ...]
    adverbs: tuple[str, ...]

    def participle_form(self, gender: Gender, plural: bool) -> str:
        """Return the participle in a gender and number."""
        return self.participle[:-1] + ending(gender, plural)


def _verb(lemma: str, row: Mapping[str, Any]) -> Verb:
    """Parse a row of the table of verbs; forms that are not in the row are regular."""
    english, _, particle = lemma.partition(" ")
    infinitive = row["infinitive"]
    regular_participle = (
        infinitive[:-3] + {"are": "ato", "ere": "uto", "ire": "ito"}[infinitive[-3:]]
    )
    irregular_present = _words(row.get("present", ""))
    return Verb(
        lemma=lemma,
        english=english,
        third=row.get("third", inflection.english_s(english)),
        past=row.get("past", inflection.english_past(english)),
        particle=particle,
        infinitive=infinitive,
        present=irregular_present
        or inflection.italian_present(infinitive, isc=row.get("isc", False)),
        participle=row.get("participle", regular_participle),
        with_essere=row.get("essere", False),
        subjects=_words(row.get("subjects", "person kin")),
        objects=_words(row.get("objects", "")),
        complements=_words(row.get("complements", "")),
        adverbs=_words(row.get("adverbs", "often always")),
    )


VERBS = tuple(_verb(lemma, row) for lemma, row in _TABLES["verbs"].items())
VERB = {verb.lemma: verb for verb in VERBS}


def verbs(words: str) -> tuple[Verb, ...]:
    """Return the verbs of a list, with underscores for spaces."""
    return tuple(VERB[word.replace("_", " ")] for word in words.split())


BE, HAVE, WANT, MUST = (_verb(lemma, row) for lemma, row in _TABLES["auxiliaries"].items())
BE_WITH_AVERE = replace(BE, present=HAVE.present)  # I am hungry: ho fame
BE_ENGLISH = ("am", "are", "is", "are", "are", "are")
SEQUELS = {VERB[first]: verbs(then) for first, then in _TABLES["sequels"].items()}


# ---- Function words ----


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A personal pronoun.

    English subject and object forms; Italian clitic (mi vede) and stressed form (con me).
    """

    subject: str
    object: str
    clitic: str
    stressed: str
    person: Person
    gender: Gender


PRONOUNS = tuple(Pronoun(subject, *row) for subject, row in _TABLES["pronouns"].items())
PRONOUN = {pronoun.subject: pronoun for pronoun in PRONOUNS}
CLITICS: dict[tuple[Gender, bool], str] = {
    ("m", False): "lo",
    ("f", False): "la",
    ("m", True): "li",
    ("f", True): "le",
}
# Masculine, feminine, masculine plural, feminine plural.
POSSESSIVES = {english: _words(forms) for english, forms in _TABLES["possessives"].items()}
NUMERALS: dict[str, str] = _TABLES["numerals"]
INVARIABLE_DETERMINERS = {**NUMERALS, "every": "ogni"}
QUANTIFIERS: dict[str, str] = _TABLES["quantifiers"]
FEELINGS: dict[str, str] = _TABLES["feelings"]
DEGREES: dict[str, str] = _TABLES["degrees"]
MIDDLE_ADVERBS: dict[str, str] = _TABLES["middle_adverbs"]
FINAL_ADVERBS: dict[str, str] = _TABLES["final_adverbs"]
EXPRESSIONS: dict[str, str] = _TABLES["expressions"]
TIMES: dict[str, str] = _TABLES["times"]
QUESTION_WORDS: dict[str, str] = _TABLES["question_words"]
