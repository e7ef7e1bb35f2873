"""The words of the English-Italian grammar, read from the tables of `lexicon.toml`, which explains their columns.

A noun has one *kind* (person, food...); verbs and adjectives list the kinds, or the single nouns, that they fit.
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
    """The words of a list, those of its groups too."""
    groups = _TABLES["groups"]
    return tuple(
        word
        for name in text.split()
        for word in (_words(groups[name]) if name in groups else (name,))
    )


# ---- Nouns ----


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun in both numbers. `feminine`: the Italian said of a woman, where English has one word for both sexes."""

    kind: str
    english: str
    english_plural: str | None  # None: never said in the plural
    is_mass: bool  # never "a" bread
    italian: str
    italian_plural: str
    gender: Gender
    plural_gender: Gender
    feminine: tuple[str, str] | None

    def forms(self, plural: bool, *, of_a_woman: bool = False) -> tuple[str, str, Gender]:
        """English form, Italian form and Italian gender."""
        english = (self.english_plural or "") if plural else self.english
        if of_a_woman and self.feminine:
            return english, self.feminine[plural], "f"
        return (
            (english, self.italian_plural, self.plural_gender)
            if plural
            else (english, self.italian, self.gender)
        )


def _noun(kind: str, entry: str) -> Noun:
    """A noun from an entry of its table."""
    english, gender, italian, *woman = entry.split()
    english, _, many = english.partition("/")
    italian, _, irregular = italian.partition("/")
    irregular, _, turns_feminine = irregular.partition(":")
    own: Gender = "f" if gender == "f" else "m"
    return Noun(
        kind,
        english,
        None if many in ("mass", "singular") else many or inflection.english_s(english),
        many == "mass",
        italian,
        irregular or inflection.italian_plural(italian),
        own,
        "f" if turns_feminine else own,
        (woman[0], inflection.italian_plural(woman[0])) if woman else None,
    )


NOUNS = tuple(_noun(kind, entry) for kind, entries in _TABLES["nouns"].items() for entry in entries)
NOUN = {noun.english: noun for noun in NOUNS}
NAMES: tuple[tuple[str, Gender], ...] = tuple(_TABLES["names"].items())


def that_fit(kinds: tuple[str, ...]) -> tuple[Noun, ...]:
    """The nouns among these kinds and English words."""
    return tuple(noun for noun in NOUNS if noun.kind in kinds or noun.english in kinds)


# ---- Adjectives ----


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective: before or after the noun in Italian (in English always before), and what it may describe.

    `attributes` are the kinds or nouns it may stand beside, `predicates` those of which "is ..." may say it, `degrees`
    what may go before it (very, too). `is_state` is true of what comes and goes: "Why are you tired?", "always tired".
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
        """The full form, as after the noun or after "is"."""
        if self.italian.endswith("e"):
            return self.italian[:-1] + ("i" if plural else "e")
        if plural and gender == "m" and self.masculine_plural:
            return self.masculine_plural
        stem = self.italian[:-1]
        if plural:
            stem = (
                stem + "h"
                if stem[-1] in "cg"
                else stem.removesuffix("i")
                if gender == "m"
                else stem
            )
        return stem + ending(gender, plural)

    def form_before(self, gender: Gender, plural: bool, following: str) -> str:
        """The form before a noun: bello and buono shorten like the articles."""
        if self.italian == "bello":
            return inflection.fused("be", gender, plural, following)
        if self.italian == "buono" and not plural:
            return inflection.like_un("buon", gender, following)
        return self.form(gender, plural)


_PRENOMINAL = ("bello", "buono", "grande", "piccolo", "vecchio", "giovane", "caro")


def _adjective(english: str, row: Mapping[str, Any]) -> Adjective:
    """An adjective from a row of its table."""
    return Adjective(
        english,
        row["italian"],
        row["italian"] in _PRENOMINAL,
        _words(row["attributes"]),
        _words(row.get("predicates", row["attributes"])),
        _words(row.get("degrees", "")),
        row.get("state", False),
        row.get("plural", ""),
    )


ADJECTIVES = tuple(_adjective(english, row) for english, row in _TABLES["adjectives"].items())
ADJECTIVE = {adjective.english: adjective for adjective in ADJECTIVES}


# ---- Verbs ----

Person = Literal[0, 1, 2, 3, 4, 5]  # io, tu, lui or lei, noi, voi, loro


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb: English base, third person, past; Italian infinitive, six present forms, participle (masculine singular).

    `particle` is the preposition English adds before the object (wait *for*). `past` is "" for states, whose past would
    be an imperfect in Italian. `subjects` and `objects` are kinds or nouns; no objects: intransitive. `complements` and
    `adverbs` say what may follow, an underscore standing for a space.
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
        """The participle, agreeing."""
        return self.participle[:-1] + ending(gender, plural)


def _verb(lemma: str, row: Mapping[str, Any]) -> Verb:
    """A verb from a row of its table; forms that the row leaves out are regular."""
    english, _, particle = lemma.partition(" ")
    infinitive = row["infinitive"]
    regular = infinitive[:-3] + {"are": "ato", "ere": "uto", "ire": "ito"}[infinitive[-3:]]
    return Verb(
        lemma,
        english,
        row.get("third", inflection.english_s(english)),
        row.get("past", inflection.english_past(english)),
        particle,
        infinitive,
        _words(row.get("present", ""))
        or inflection.italian_present(infinitive, isc=row.get("isc", False)),
        row.get("participle", regular),
        row.get("essere", False),
        _words(row.get("subjects", "person kin")),
        _words(row.get("objects", "")),
        _words(row.get("complements", "")),
        _words(row.get("adverbs", "often always")),
    )


VERBS = tuple(_verb(lemma, row) for lemma, row in _TABLES["verbs"].items())
VERB = {verb.lemma: verb for verb in VERBS}


def verbs(words: str) -> tuple[Verb, ...]:
    """The verbs of a list, an underscore standing for a space."""
    return tuple(VERB[word.replace("_", " ")] for word in words.split())


BE, HAVE, WANT, MUST = (_verb(lemma, row) for lemma, row in _TABLES["auxiliaries"].items())
BE_WITH_AVERE = replace(BE, present=HAVE.present)  # I am hungry: ho fame
BE_ENGLISH = ("am", "are", "is", "are", "are", "are")
SEQUELS = {VERB[first]: verbs(then) for first, then in _TABLES["sequels"].items()}


# ---- Function words ----


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A personal pronoun: English subject and object, Italian clitic (mi vede) and stressed form (con me)."""

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
POSSESSIVES = {
    english: _words(forms) for english, forms in _TABLES["possessives"].items()
}  # m, f, plural m, plural f
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
