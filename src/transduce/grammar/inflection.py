"""Regular inflection: the forms of Italian and English words that follow a rule."""

from typing import Literal

Gender = Literal["m", "f"]
VOWELS = "aeiouàèéìòù"

# ---- Forms that depend on how the next word begins ----


def begins_with_vowel(word: str) -> bool:
    """True before a vowel or a mute h: where articles elide (l'amico, l'ho)."""
    return word[0] in VOWELS or word[0] == "h"


def is_impure(word: str) -> bool:
    """True before s + consonant, z, ps, gn, x, y: where masculine articles are lo, uno, gli (lo zaino)."""
    return (
        word[0] in "zxy" or word[:2] in ("ps", "gn") or (word[0] == "s" and word[1] not in VOWELS)
    )


def definite_article(gender: Gender, plural: bool, following: str) -> str:
    """Il, lo, la, l', i, gli, le."""
    vowel, impure = begins_with_vowel(following), is_impure(following)
    if plural:
        return "le" if gender == "f" else "gli" if vowel or impure else "i"
    if vowel:
        return "l'"
    return "la" if gender == "f" else "lo" if impure else "il"


# The article after de-, ne-, su-, a- (del, nello, sull'...), and equally after be-, que- (bel, quello, begli...).
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


def fused(stem: str, gender: Gender, plural: bool, following: str) -> str:
    """A stem with the article's ending: bel gatto, bello zaino, bell'uomo, quegli amici."""
    return stem + FUSED_ARTICLE[definite_article(gender, plural, following)]


def like_un(stem: str, gender: Gender, following: str) -> str:
    """A singular on the pattern of un, uno, una, un': buon amico, buono studente, buona donna, buon'amica."""
    if gender == "f":
        return stem + ("'" if begins_with_vowel(following) else "a")
    return stem + ("o" if is_impure(following) else "")


def questo(gender: Gender, plural: bool, following: str) -> str:
    """Questo, questa, quest', questi, queste."""
    if not plural and begins_with_vowel(following):
        return "quest'"
    return "quest" + ending(gender, plural)


# ---- Forms that depend on the word itself ----


def ending(gender: Gender, plural: bool) -> str:
    """The ending of adjectives and participles in -o."""
    return ("i" if gender == "m" else "e") if plural else ("o" if gender == "m" else "a")


def english_s(word: str) -> str:
    """Plural of a noun, third person of a verb: -s, -es, -ies."""
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh", "go")) else "s")


def italian_plural(word: str) -> str:
    """-o and -e to -i, -io to -i, -a to -e (-ca to -che), all others invariable."""
    if word.endswith("a"):
        return word[:-1] + ("he" if word[-2] in "cg" else "e")
    if word.endswith("io"):
        return word[:-1]
    return word[:-1] + "i" if word.endswith(("o", "e")) else word


def italian_present(infinitive: str, *, isc: bool = False) -> tuple[str, ...]:
    """The six forms of the regular present: -are (c and g stay hard: cerchi), -ere, -ire, and -ire with -isc-."""
    stem, conjugation = infinitive[:-3], infinitive[-3:]
    if conjugation == "are":
        soft = (
            stem.removesuffix("i")
            if stem.endswith("i")
            else stem + "h"
            if stem[-1] in "cg"
            else stem
        )
        return (stem + "o", soft + "i", stem + "a", soft + "iamo", stem + "ate", stem + "ano")
    long = stem + "isc" if isc else stem
    they, you_all = long + "ono", stem + ("ete" if conjugation == "ere" else "ite")
    return (long + "o", long + "i", long + "e", stem + "iamo", you_all, they)


def english_past(base: str) -> str:
    """The regular past: -ed, -d, -ied."""
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + ("d" if base.endswith("e") else "ed")
