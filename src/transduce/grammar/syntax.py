"""Phrases and clauses of English and Italian, built together from the words of the lexicon.

Each word carries the concepts it expresses; words that share a concept are aligned.

Each English sentence has exactly one translation. Where English says less than Italian needs, these
conventions decide:

- I, you, we, you all, they are masculine in Italian ("I went" is "Sono andato").
- "you" is tu, "you all" is voi.
- friend, doctor, student... are masculine, unless the subject is a woman ("She is a good friend":
  "buon'amica").
- Subject pronouns are dropped.
- The simple past is the passato prossimo; states (be, have, love...) stay in the present.
- Lo and la elide before a and h (l'amo, l'ho vista), not before i (la incontro); other pronouns
  never elide (ti amo).
- A participle agrees with its subject after essere, and with a preceding object pronoun after avere
  (li ho visti).
- Bello, buono, grande, piccolo, vecchio, giovane, caro precede the noun; others follow it.
- Close kin, singular and unmodified, take no article with a possessive (mia madre), except with
  loro.
"""

from itertools import count
from typing import Literal, NamedTuple

from transduce.grammar import inflection
from transduce.grammar import lexicon as lex
from transduce.grammar.inflection import Gender, definite_article, ending
from transduce.grammar.lexicon import BE, HAVE, MUST, NOUN, Adjective, Noun, Pronoun, Verb
from transduce.text.corpus import Pair

Tense = Literal["present", "past"]
Negation = Literal["", "not", "n't"]
YES_OR_NO: Literal["yes or no"] = "yes or no"

Concepts = tuple[int, ...]
_new_concept = count().__next__


class Word(NamedTuple):
    """A word and the concepts it expresses.

    An Italian word that ends in an apostrophe is joined to the next one (l' + amico).
    """

    text: str
    concepts: Concepts


Words = tuple[Word, ...]


class Phrase(NamedTuple):
    """A constituent in both languages, with the features that agreement depends on.

    Pronouns have no Italian words: as subjects they are dropped, as objects they are the `clitic`.
    """

    english: Words
    italian: Words
    person: int = 2
    gender: Gender = "m"
    clitic: str = ""
    lemma: str = ""  # the content word; "" for pronouns and names
    combinations: tuple[str, ...] = ()

    @property
    def is_plural(self) -> bool:
        """Return whether the phrase is plural: noi, voi, loro and plural nouns."""
        return self.person > 2


NOTHING = Phrase((), ())


class Sentence(NamedTuple):
    """A sentence as words, not yet joined into text.

    `combinations` names the pairs of content words that are in a syntactic relation.
    """

    english: Words
    italian: Words
    combinations: tuple[str, ...]
    is_question: bool = False

    def pair(self) -> Pair:
        """Return the spelled sentences and their alignment."""
        english, italian = _spoken(self.english), _spoken(self.italian)
        end = "?" if self.is_question else ""
        places: dict[int, list[int]] = {}  # of each concept in the Italian sentence
        for j, word in enumerate(italian):
            for concept in word.concepts:
                places.setdefault(concept, []).append(j)
        links = {
            (i, j)
            for i, word in enumerate(english)
            for concept in word.concepts
            for j in places.get(concept, ())
        }
        return Pair(_spelled(english) + end, _spelled(italian) + end, tuple(sorted(links)))


def _spoken(words: Words) -> list[Word]:
    """Join elided words to the next: l' + amico becomes l'amico and expresses both."""
    spoken: list[Word] = []
    for word in words:
        if spoken and spoken[-1].text.endswith("'"):
            elided = spoken.pop()
            word = Word(elided.text + word.text, elided.concepts + word.concepts)
        spoken.append(word)
    return spoken


def _spelled(words: list[Word]) -> str:
    text = " ".join([word.text for word in words])
    return text[0].upper() + text[1:]


def combination(one: str, other: str) -> tuple[str, ...]:
    """Return a tuple with the name of the combination of two lemmas, such as "car+red".

    The order does not matter. If a lemma is "" (not a content word), the tuple is empty.
    """
    if not (one and other):
        return ()
    return (f"{one}+{other}" if one < other else f"{other}+{one}",)


# ---- Phrases ----


def fixed(english: str, italian: str) -> Phrase:
    """Return an expression that is translated as a whole: at home, a casa."""
    concept = (_new_concept(),)
    return Phrase(
        tuple([Word(w, concept) for w in english.split()]),
        tuple([Word(w, concept) for w in italian.split()]),
    )


def subject_pronoun(pronoun: Pronoun) -> Phrase:
    """Return I, you, he...: dropped in Italian."""
    return fixed(pronoun.subject, "")._replace(person=pronoun.person, gender=pronoun.gender)


def object_pronoun(pronoun: Pronoun) -> Phrase:
    """Return me, you, him...: a clitic in Italian."""
    phrase = fixed(pronoun.object, "")
    return phrase._replace(person=pronoun.person, gender=pronoun.gender, clitic=pronoun.clitic)


def with_pronoun(pronoun: Pronoun) -> Phrase:
    """Return with me: con me."""
    return prepositional("with", "con", fixed(pronoun.object, pronoun.stressed))


def anaphor(antecedent: Phrase) -> Phrase:
    """Return it, him, her or them for an earlier noun phrase, with its gender."""
    is_human = NOUN[antecedent.lemma].kind in ("person", "kin")
    one = ("him" if antecedent.gender == "m" else "her") if is_human else "it"
    phrase = fixed("them" if antecedent.is_plural else one, "")
    clitic = lex.CLITICS[antecedent.gender, antecedent.is_plural]
    return phrase._replace(
        person=antecedent.person, gender=antecedent.gender, clitic=clitic, lemma=antecedent.lemma
    )


def name(text: str, gender: Gender) -> Phrase:
    """Return a name, without article."""
    return fixed(text, text)._replace(gender=gender)


def both(first: Phrase, second: Phrase) -> Phrase:
    """Return "Maria and Luca": plural, feminine only if both are."""
    link = fixed("and", "e")
    gender: Gender = "f" if first.gender == second.gender == "f" else "m"
    english = first.english + link.english + second.english
    return Phrase(english, first.italian + link.italian + second.italian, 5, gender)


def question_word(english: str) -> Phrase:
    """Return where, what, who, why or when."""
    return fixed(english, lex.QUESTION_WORDS[english])


def noun_phrase(
    noun: Noun,
    determiner: str,
    *adjectives: Adjective,
    plural: bool = False,
    of_a_woman: bool = False,
) -> Phrase:
    """Return a noun with its determiner and adjectives.

    It is built from right to left, since each form depends on the next word.
    """
    english_noun, italian_noun, gender = noun.forms(plural, of_a_woman=of_a_woman)
    concept = (_new_concept(),)
    english, italian = [Word(english_noun, concept)], [Word(italian_noun, concept)]
    combinations: tuple[str, ...] = ()
    for adjective in reversed(adjectives):
        concept = (_new_concept(),)
        english.insert(0, Word(adjective.english, concept))
        if adjective.is_prenominal:
            italian.insert(0, Word(adjective.form_before(gender, plural, italian[0].text), concept))
        else:
            italian.append(Word(adjective.form(gender, plural), concept))
        combinations += combination(adjective.english, noun.english)
    is_bare_kin = noun.kind == "kin" and not plural and not adjectives
    forms = _italian_determiner(determiner, gender, plural, italian[0].text, is_bare_kin)
    what = fixed(_english_determiner(determiner, plural, english[0].text), forms)
    words = (*what.english, *english), (*what.italian, *italian)
    return Phrase(*words, 5 if plural else 2, gender, "", noun.english, combinations)


def _english_determiner(determiner: str, plural: bool, following: str) -> str:
    if determiner == "a" and following[0] in "aeiouEI":
        return "an"
    if plural:
        return {"this": "these", "that": "those"}.get(determiner, determiner)
    return determiner


def _italian_determiner(
    determiner: str, gender: Gender, plural: bool, following: str, is_bare_kin: bool
) -> str:
    if determiner == "the":
        return definite_article(gender, plural, following)
    if determiner in lex.POSSESSIVES:
        masculine, feminine, masculine_plural, feminine_plural = lex.POSSESSIVES[determiner]
        if plural:
            possessive = feminine_plural if gender == "f" else masculine_plural
        else:
            possessive = feminine if gender == "f" else masculine
        if is_bare_kin and determiner != "their":
            return possessive
        return f"{definite_article(gender, plural, possessive)} {possessive}"
    if determiner == "a":
        return inflection.like_un("un", gender, following)
    if determiner == "this":
        return inflection.questo(gender, plural, following)
    if determiner == "that":
        return inflection.with_article_ending("que", gender, plural, following)
    if determiner in lex.QUANTIFIERS:
        return lex.QUANTIFIERS[determiner] + ending(gender, plural)
    return lex.INVARIABLE_DETERMINERS[determiner]


def owned_by(owner: str, owned: Phrase) -> Phrase:
    """Return "Maria's cat": il gatto di Maria. `owned` must begin with "the"."""
    concept = owned.english[0].concepts
    english = (Word(f"{owner}'s", concept), *owned.english[1:])
    return owned._replace(
        english=english, italian=(*owned.italian, Word("di", concept), Word(owner, concept))
    )


def of(owned: Phrase, owner: Phrase) -> Phrase:
    """Return "the house of the doctor": la casa del dottore."""
    tail = prepositional("of", "di", owner)
    return owned._replace(
        english=owned.english + tail.english,
        italian=owned.italian + tail.italian,
        combinations=owned.combinations
        + owner.combinations
        + combination(owned.lemma, owner.lemma),
    )


def prepositional(english: str, italian: str, nominal: Phrase) -> Phrase:
    """Return a preposition with its noun phrase.

    Di, in, su and a fuse with the article (del, nello, sull', alle).
    """
    concept = (_new_concept(),)
    first, *rest = nominal.italian
    if italian in inflection.FUSING_PREPOSITIONS and first.text in inflection.FUSED_ARTICLE:
        text = inflection.FUSING_PREPOSITIONS[italian] + inflection.FUSED_ARTICLE[first.text]
        words: Words = (Word(text, concept + first.concepts), *rest)
    else:
        words = (Word(italian, concept), *nominal.italian)
    return nominal._replace(english=(Word(english, concept), *nominal.english), italian=words)


def predicate(subject: Phrase, adjective: Adjective, degree: str = "") -> Phrase:
    """Return "very old": molto vecchie, agreeing with the subject."""
    quality = fixed(adjective.english, adjective.form(subject.gender, subject.is_plural))
    how = fixed(degree, lex.DEGREES[degree]) if degree else NOTHING
    return Phrase(
        how.english + quality.english, how.italian + quality.italian, lemma=adjective.english
    )


# ---- Clauses ----


def clause(
    subject: Phrase,
    verb: Verb,
    object: Phrase = NOTHING,
    *,
    complement: Phrase = NOTHING,
    tense: Tense = "present",
    negation: Negation = "",
    modal: Verb | None = None,
    adverb: str = "",
    time: str = "",
    time_first: bool = False,
    asks: Phrase | Literal["yes or no"] | None = None,
) -> Sentence:
    """Return a statement, a yes-no question, or a question for the phrase `asks`.

    With "who" as subject there is no inversion, so it is passed as `subject`, not as `asks`.
    "never" is an adverb, not a negation, although Italian adds non.
    """
    asked = asks if isinstance(asks, Phrase) else NOTHING
    when = fixed(time, lex.TIMES[time]) if time else NOTHING
    first_when, last_when = (when, NOTHING) if time_first else (NOTHING, when)
    middle = fixed(adverb, lex.MIDDLE_ADVERBS[adverb]) if adverb in lex.MIDDLE_ADVERBS else NOTHING
    final = fixed(adverb, lex.FINAL_ADVERBS[adverb]) if adverb in lex.FINAL_ADVERBS else NOTHING
    finite, meaning, denial = _new_concept(), _new_concept(), _new_concept()

    start, rest = _english_verb(
        verb, modal, subject, tense, negation, asks is not None, (finite, meaning, denial)
    )
    english = (
        first_when.english + asked.english + start + middle.english + rest
        + object.english + final.english + complement.english + last_when.english
    )  # fmt: skip

    non = (Word("non", middle.english[0].concepts if adverb == "never" else (denial,)),)
    dropped = () if subject.italian or not subject.english else subject.english[0].concepts
    conjugated, *others = _italian_verb(verb, modal, subject, object, tense, (finite, meaning))
    elides = object.clitic in ("lo", "la") and conjugated.text[0] in "ah"
    clitic = (
        (Word("l'" if elides else object.clitic, object.english[0].concepts),)
        if object.clitic
        else ()
    )
    # Dove dorme il gatto? Perché il gatto dorme?
    subject_follows = asked is not NOTHING and asked.italian[0].text != "perché"
    italian = (
        first_when.italian + asked.italian
        + (() if subject_follows else subject.italian)
        + (non if negation or adverb == "never" else ()) + clitic
        + (Word(conjugated.text, conjugated.concepts + dropped),)
        + middle.italian + tuple(others) + final.italian
        + object.italian + complement.italian
        + (subject.italian if subject_follows else ()) + last_when.italian
    )  # fmt: skip
    if italian[0].text == "dove" and italian[1].text == "è":
        italian = (Word("dov'", italian[0].concepts), *italian[1:])

    combinations = (
        subject.combinations + object.combinations + complement.combinations + asked.combinations
    )
    if verb.english == "be":
        combinations += combination(subject.lemma, complement.lemma)
    else:
        for companion in (subject.lemma, object.lemma, complement.lemma, asked.lemma):
            combinations += combination(verb.lemma, companion)
    is_question = asks is not None or english[0].text == "who"
    return Sentence(english, italian, combinations, is_question)


def _english_verb(
    verb: Verb,
    modal: Verb | None,
    subject: Phrase,
    tense: Tense,
    negation: Negation,
    inverts: bool,
    concepts: Concepts,
) -> tuple[Words, Words]:
    """Return the words before a middle adverb, and those after it.

    The first part is the subject with the operator (do, does, did, be, must) and "not".
    """
    finite, meaning, denial = concepts
    leading = modal or verb
    base = Word(verb.english, (meaning,))
    operator = ""
    rest: Words = (base,)
    if verb.english == "be":
        operator, rest = lex.BE_ENGLISH[subject.person], ()
    elif modal is MUST:
        operator = "must"
    elif negation or inverts:
        operator = "does" if subject.person == 2 else "do"
        if tense == "past":
            operator = "did"
        if modal:
            rest = (Word(modal.english, (finite,)), Word("to", (meaning,)), base)
    else:
        inflected = leading.english
        if tense == "past":
            inflected = leading.past
        elif subject.person == 2:
            inflected = leading.third
        if modal:
            rest = (Word(inflected, (finite,)), Word("to", (meaning,)), base)
        else:
            rest = (Word(inflected, (meaning,)),)
    if verb.particle:
        rest += (Word(verb.particle, (meaning,)),)
    if not operator:
        return subject.english, rest
    helper = (
        Word(operator + "n't", (finite, denial)) if negation == "n't" else Word(operator, (finite,))
    )
    no = (Word("not", (denial,)),) if negation == "not" else ()
    return ((helper, *subject.english, *no) if inverts else (*subject.english, helper, *no)), rest


def _italian_verb(
    verb: Verb,
    modal: Verb | None,
    subject: Phrase,
    object: Phrase,
    tense: Tense,
    concepts: Concepts,
) -> Words:
    """Return the finite verb, and the participle or infinitive if there is one."""
    finite, meaning = concepts
    if modal:
        return Word(modal.present[subject.person], (finite,)), Word(verb.infinitive, (meaning,))
    if tense == "present":
        return (Word(verb.present[subject.person], concepts),)
    auxiliary = BE if verb.with_essere else HAVE
    agrees_with = NOTHING
    if verb.with_essere:
        agrees_with = subject
    elif object.clitic:
        agrees_with = object
    participle = verb.participle_form(agrees_with.gender, agrees_with.is_plural)
    return Word(auxiliary.present[subject.person], concepts), Word(participle, (meaning,))


def there_is(nominal: Phrase, place: Phrase, *, asks: bool = False) -> Sentence:
    """Return "there is a cat in the garden": c'è un gatto nel giardino."""
    exists = fixed("there are", "ci sono") if nominal.is_plural else fixed("there is", "c' è")
    opening = tuple(reversed(exists.english)) if asks else exists.english
    return Sentence(
        opening + nominal.english + place.english,
        exists.italian + nominal.italian + place.italian,
        nominal.combinations + place.combinations + combination(nominal.lemma, place.lemma),
        asks,
    )


def coordinate(first: Sentence, second: Sentence) -> Sentence:
    """Join two statements by "and"."""
    link = fixed("and", "e")
    english = first.english + link.english + second.english
    italian = first.italian + link.italian + second.italian
    return Sentence(english, italian, first.combinations + second.combinations)
