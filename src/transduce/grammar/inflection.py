"""Regular inflection of Italian and English words."""

from typing import Literal

Gender = Literal["m", "f"]
VOWELS = "aeiouàèéìòù"

# ---- Forms that depend on how the next word begins ----


def begins_with_vowel(word: str) -> bool:
    """Return whether articles elide before a word: at a vowel or a mute h (l'amico, l'ho)."""
    return word[0] in VOWELS or word[0] == "h"


def is_impure(word: str) -> bool:
    """Return whether a masculine word takes the articles lo, uno, gli (lo zaino).

    Words do that begin with s + consonant, z, ps, gn, x or y.
    """
    return (
        word[0] in "zxy" or word[:2] in ("ps", "gn") or (word[0] == "s" and word[1] not in VOWELS)
    )


def definite_article(gender: Gender, plural: bool, following: str) -> str:
    """Return il, lo, la, l', i, gli or le."""
    vowel, impure = begins_with_vowel(following), is_impure(following)
    if plural:
        if gender == "f":
            return "le"
        return "gli" if vowel or impure else "i"
    if vowel:
        return "l'"
    if gender == "f":
        return "la"
    return "lo" if impure else "il"


# The article after de-, ne-, su-, a- (del, nello, sull'...) and after be-, que- (bel, quello...).
FUSED_ARTICLE = {
    "il": "l",
    "lo": "llo",
    "l'": "ll'",
    "la": "lla",
    "i": "i",
    "gli": "gli",
    "le": "lle",
}
FUSING_PREPOSITIONS = {"di": "de", "in": "ne", "su": "su", "a": "a"}


def with_article_ending(stem: str, gender: Gender, plural: bool, following: str) -> str:
    """Return a stem with the ending of the article: bel gatto, bello zaino, bell'uomo."""
    return stem + FUSED_ARTICLE[definite_article(gender, plural, following)]


def like_un(stem: str, gender: Gender, following: str) -> str:
    """Return a singular that inflects like un, uno, una, un': buon amico, buono studente."""
    if gender == "f":
        return stem + ("'" if begins_with_vowel(following) else "a")
    return stem + ("o" if is_impure(following) else "")


def questo(gender: Gender, plural: bool, following: str) -> str:
    """Return questo, questa, quest', questi or queste."""
    if not plural and begins_with_vowel(following):
        return "quest'"
    return "quest" + ending(gender, plural)


# ---- Forms that depend on the word itself ----


def ending(gender: Gender, plural: bool) -> str:
    """Return the ending of adjectives and participles in -o."""
    if plural:
        return "i" if gender == "m" else "e"
    return "o" if gender == "m" else "a"


def english_s(word: str) -> str:
    """Return the plural of a noun or the third person of a verb: -s, -es, -ies."""
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh", "go")) else "s")


def italian_plural(word: str) -> str:
    """Return the regular plural: -o, -e, -io to -i, -a to -e (-ca to -che), others unchanged."""
    if word.endswith("a"):
        return word[:-1] + ("he" if word[-2] in "cg" else "e")
    if word.endswith("io"):
        return word[:-1]
    return word[:-1] + "i" if word.endswith(("o", "e")) else word


def italian_present(infinitive: str, *, isc: bool = False) -> tuple[str, ...]:
    """Return the six forms of the regular present of -are, -ere and -ire, the last also with -isc-.

    In -are verbs, c and g stay hard (cerchi).
    """
    stem, conjugation = infinitive[:-3], infinitive[-3:]
    if conjugation == "are":
        before_i = stem  # the stem before an ending in i-
        if stem.endswith("i"):
            before_i = stem.removesuffix("i")
        elif stem[-1] in "cg":
            before_i = stem + "h"
        return (
            stem + "o",
            before_i + "i",
            stem + "a",
            before_i + "iamo",
            stem + "ate",
            stem + "ano",
        )
    stressed = stem + "isc" if isc else stem
    you_all = stem + ("ete" if conjugation == "ere" else "ite")
    return (
        stressed + "o",
        stressed + "i",
        stressed + "e",
        stem + "iamo",
        you_all,
        stressed + "ono",
    )


def english_past(base: str) -> str:
    """Return the regular past: -ed, -d, -ied."""
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + ("d" if base.endswith("e") else "ed")
