"""Draw sentences at random from words that go together; `syntax` builds the clauses.

A verb goes with its subjects and objects, an adjective with its nouns.
"""

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Literal, TypedDict

from transduce.grammar import lexicon as lex
from transduce.grammar import syntax
from transduce.grammar.syntax import NOTHING, YES_OR_NO, Negation, Phrase, Sentence, Tense

Role = Literal["topic", "subject", "object"]


def draw(rng: Random) -> Sentence:
    """Draw a sentence; the probability of each kind is its share of `_DECK`."""
    return rng.choice(_DECK)(rng)


# ---- What goes with what ----


def _nouns(words: str) -> tuple[lex.Noun, ...]:
    return lex.nouns_of(tuple(words.split()))


_SUBJECTS = {verb: lex.nouns_of(verb.subjects) for verb in (*lex.VERBS, lex.HAVE)}
_OBJECTS = {verb: lex.nouns_of(verb.objects) for verb in (*lex.VERBS, lex.HAVE)}
_TRANSITIVE = tuple(verb for verb in lex.VERBS if verb.objects)
_EVENTS = tuple(verb for verb in _TRANSITIVE if verb.past)  # "When do you know him?" is not asked
_INTRANSITIVE = tuple(verb for verb in lex.VERBS if not verb.objects)
_OF_PERSONS = tuple(verb for verb in _TRANSITIVE if "person" in verb.objects)
_OF_THINGS = lex.verbs("see eat drink buy sell find lose wash write prepare prefer open close")
_INCOMPLETE = lex.verbs("go come return stay")  # need a complement
# By noun: the adjectives that may modify it, those before it and those after it in Italian.
_ATTRIBUTES = {
    noun: tuple(a for a in lex.ADJECTIVES if noun in lex.nouns_of(a.attributes))
    for noun in lex.NOUNS
}
_BEFORE = {noun: tuple(a for a in fit if a.is_prenominal) for noun, fit in _ATTRIBUTES.items()}
_AFTER = {noun: tuple(a for a in fit if not a.is_prenominal) for noun, fit in _ATTRIBUTES.items()}
# Adjectives that may follow a prenominal one, last in English and after the noun in Italian:
# a big red bag, una grande borsa rossa.
_LAST = {
    noun: tuple(
        a
        for a in after
        if a.english in ("red", "white", "black", "green", "yellow", "Italian", "English")
    )
    for noun, after in _AFTER.items()
}
_PREDICATES = {
    noun: tuple(a for a in lex.ADJECTIVES if noun in lex.nouns_of(a.predicates))
    for noun in lex.NOUNS
}
_DESCRIBED = tuple(noun for noun in lex.NOUNS if _PREDICATES[noun])
_PERSONAL = tuple(adjective for adjective in lex.ADJECTIVES if "person" in adjective.predicates)
_PEOPLE, _LIVING, _PLACES = _nouns("person"), _nouns("person animal"), _nouns("place")
_PROFESSIONS = _nouns("friend doctor student teacher psychologist")
_DESTINATIONS = _nouns("goal park shop hotel stadium restaurant museum castle")
_PORTABLE = _nouns("key photo gift phone letter book apple hat shirt scarf newspaper sandwich")
_OWNERLESS = _nouns("man woman boy girl actor actress sight goal park stadium")
_PRIVATE = _nouns("garden room shop")
_OWNABLE = _nouns("animal thing item clothing vehicle home book")
# "She buys a car and she washes it": a verb, and by its object the verbs that may come next.
_SEQUELS = tuple(
    (
        first,
        {
            noun: fit
            for noun in _OBJECTS[first]
            if (fit := tuple(v for v in then if noun in _OBJECTS[v]))
        },
    )
    for first, then in lex.SEQUELS.items()
)
_PERSONS = _nouns("person kin")
_COMPARABLE = tuple(
    noun
    for noun in lex.NOUNS
    if not noun.is_mass and noun.kind != "kin" and _BEFORE[noun] + _AFTER[noun]
)
_LOCAL = lex.verbs("sleep work sing dance play go stay")
_LOCATED = lex.verbs("eat drink buy sell find lose wash meet wait_for see")
_SUPPORTS = _nouns("box bag backpack table chair")
_OTHERS = tuple(
    tuple(other for other in lex.PRONOUNS if person % 3 == 2 or other.person % 3 != person % 3)
    for person in range(6)
)
_POSSESSIVES = tuple(lex.POSSESSIVES)
# By person: nobody is their own friend, but "he is his friend" is somebody else's.
_OWN = (("my", "our"), ("your",), ())
_COUNTING = (*lex.NUMERALS, "many")


@cache
def _determiners(noun: lex.Noun, plural: bool, role: Role) -> tuple[str, ...]:
    """Return the determiners to draw from, repeated by their weights.

    "'s" stands for a name as owner (Maria's), "of" for "of the doctor". A *topic* is the subject of
    "is" and takes definite determiners only. Plural subjects and objects may be counted; objects
    may be indefinite.
    """
    if noun.kind == "kin":
        return (*lex.POSSESSIVES, "'s")
    deck = ["the"] * 6 + ["this", "that", "'s"]
    if noun in _OWNERLESS:
        deck.remove("'s")
    else:
        deck += lex.POSSESSIVES
    if noun in _OWNABLE:
        deck.append("of")
    if plural and role != "topic":
        deck += _COUNTING
    elif role == "subject" and noun.kind == "person":
        deck.append("every")
    elif role == "object" and not noun.is_mass:
        deck += ["a"] * 5
    return tuple(deck)


# ---- Sampling phrases ----


def _attributes(rng: Random, noun: lex.Noun, probability: float) -> tuple[lex.Adjective, ...]:
    chosen: tuple[lex.Adjective, ...] = ()
    if _BEFORE[noun] and rng.random() < probability:
        chosen = (rng.choice(_BEFORE[noun]),)
    after = _LAST[noun] if chosen else _AFTER[noun]
    if after and rng.random() < (probability / 3 if chosen else probability):
        chosen += (rng.choice(after),)
    return chosen


def _noun_phrase(
    rng: Random, nouns: tuple[lex.Noun, ...], *, adjectives: float = 0.3, role: Role = "object"
) -> Phrase:
    noun = rng.choice(nouns)
    plural = noun.english_plural is not None and rng.random() < 0.4
    determiner = rng.choice(_determiners(noun, plural, role))
    attributes = _attributes(rng, noun, adjectives)
    if determiner == "'s":
        return syntax.owned_by(
            rng.choice(lex.NAMES)[0], syntax.noun_phrase(noun, "the", *attributes, plural=plural)
        )
    if determiner == "of":
        owner = syntax.noun_phrase(rng.choice(_PEOPLE), "the", plural=rng.random() < 0.4)
        return syntax.of(syntax.noun_phrase(noun, "the", *attributes, plural=plural), owner)
    return syntax.noun_phrase(noun, determiner, *attributes, plural=plural)


def _indefinite(rng: Random, nouns: tuple[lex.Noun, ...]) -> Phrase:
    """Draw an indefinite phrase: a cat, three cats, many cats."""
    noun = rng.choice(nouns)
    plural = noun.english_plural is not None and rng.random() < 0.5
    determiner = rng.choice(_COUNTING) if plural else "a"
    return syntax.noun_phrase(noun, determiner, *_attributes(rng, noun, 0.35), plural=plural)


def _named(rng: Random, *, besides: Phrase = NOTHING, pairs: float = 0.25) -> Phrase:
    """Draw one name, or two joined by "and", but none that occurs in the phrase `besides`."""
    used = {word.text.removesuffix("'s") for word in besides.english}
    first, second = rng.sample(
        [(text, gender) for text, gender in lex.NAMES if text not in used], 2
    )
    return (
        syntax.both(syntax.name(*first), syntax.name(*second))
        if rng.random() < pairs
        else syntax.name(*first)
    )


def _pronoun(rng: Random, *, is_asked: bool = False) -> Phrase:
    """Draw a subject pronoun; in questions, any but I."""
    return syntax.subject_pronoun(rng.choice(lex.PRONOUNS[1:] if is_asked else lex.PRONOUNS))


def _subject(
    rng: Random, nouns: tuple[lex.Noun, ...], *, is_asked: bool = False, pronouns: float = 0.55
) -> Phrase:
    roll = rng.random()
    if roll < pronouns:
        return _pronoun(rng, is_asked=is_asked)
    return (
        _named(rng)
        if roll < pronouns + 0.12
        else _noun_phrase(rng, nouns, adjectives=0.15, role="subject")
    )


def _inside(rng: Random, *, is_definite: bool = False) -> Phrase:
    """Draw a place: in the garden."""
    noun = rng.choice(_PLACES)
    determiner = rng.choice(("the", "the", "this") if is_definite else ("the", "the", "this", "a"))
    if noun in _PRIVATE and rng.random() < 0.5:
        determiner = rng.choice(_POSSESSIVES)
    return syntax.prepositional(
        "in", "in", syntax.noun_phrase(noun, determiner, *_attributes(rng, noun, 0.15))
    )


def _others(rng: Random, person: int) -> lex.Pronoun:
    """Draw a pronoun for other people than this person: no "I see me", no "we see me".

    "he sees him" is possible: him is somebody else.
    """
    return rng.choice(_OTHERS[person])


def _complement(rng: Random, verb: lex.Verb, subject: Phrase) -> Phrase:
    kind = rng.choice(verb.complements)
    if kind == "in":
        return _inside(rng)
    if kind == "to":
        return syntax.prepositional("to", "a", syntax.noun_phrase(rng.choice(_DESTINATIONS), "the"))
    if kind == "with":
        roll = rng.random()
        if roll < 0.4:
            return syntax.with_pronoun(_others(rng, subject.person))
        return syntax.prepositional(
            "with",
            "con",
            _named(rng, besides=subject)
            if roll < 0.6
            else _noun_phrase(rng, _PEOPLE, adjectives=0.1),
        )
    english = kind.replace("_", " ")
    return syntax.fixed(english, lex.EXPRESSIONS[english])


def _negation(rng: Random, *, of: Phrase, is_asked: bool, verb: lex.Verb) -> Negation:
    """Draw a negation: a fifth of all clauses are negative.

    It is contracted in questions and in a third of the statements, but never "amn't".
    """
    if rng.random() < 0.8 or (of.english and of.english[0].text == "every"):
        return ""
    if verb.english == "be" and of.person == 0:
        return "not"
    return "n't" if is_asked or rng.random() < 0.3 else "not"


class _Manner(TypedDict, total=False):
    """Arguments of `clause` that do not depend on its nouns."""

    tense: Tense
    negation: Negation
    modal: lex.Verb
    adverb: str
    time: str
    time_first: bool
    asks: Literal["yes or no"]


def _manner(
    rng: Random, verb: lex.Verb, subject: Phrase, *, is_asked: bool, modal: float = 0.1
) -> _Manner:
    """Draw tense, negation, adverb, time and question so that both languages sound natural."""
    negation = _negation(rng, of=subject, is_asked=is_asked, verb=verb)
    manner = _Manner(negation=negation)
    if is_asked:
        manner["asks"] = YES_OR_NO
    is_state = not verb.past
    roll = rng.random()
    if not is_state and roll < modal and (not subject.lemma or lex.NOUN[subject.lemma] in _PERSONS):
        manner["modal"] = lex.WANT if is_asked or rng.random() < 0.5 else lex.MUST
        if negation and manner["modal"] is lex.MUST:
            manner["negation"] = "not"
        return manner
    is_past = not is_state and rng.random() < 0.45
    manner["tense"] = "past" if is_past else "present"
    if roll < 0.35:
        if not (negation or is_asked or is_state) and rng.random() < 0.25:
            manner["adverb"] = "never"
            return manner
        adverbs = [
            a
            for a in verb.adverbs
            if (not is_past or a in ("well", "a_lot")) and (a != "still" or not negation)
        ]
        if adverbs:
            manner["adverb"] = rng.choice(adverbs).replace("_", " ")
    elif roll < 0.5 and not is_state and verb is not lex.VERB["understand"]:
        # "I leave today" is natural, "I buy it today" is not.
        planned = ("today", "tomorrow") if verb.with_essere else ()
        manner["time"] = rng.choice(("today", "yesterday") if is_past else ("every day", *planned))
        # "Every day you do not sing" is not natural.
        is_stressed = negation != "" and manner["time"] == "every day"
        manner["time_first"] = not (is_asked or is_stressed) and rng.random() < 0.5
    return manner


# ---- Sampling sentences: one function per kind ----


def _transitive(rng: Random) -> Sentence:
    """Draw a transitive clause: She does not buy the red car."""
    verb = rng.choice(_TRANSITIVE)
    is_asked = rng.random() < 0.15
    subject = _subject(rng, _SUBJECTS[verb], is_asked=is_asked)
    is_named = verb in _OF_PERSONS and rng.random() < 0.2
    object = (
        _named(rng, besides=subject, pairs=0.1) if is_named else _noun_phrase(rng, _OBJECTS[verb])
    )
    manner = _manner(rng, verb, subject, is_asked=is_asked)
    has_complement = verb.complements and "adverb" not in manner and rng.random() < 0.15
    complement = _complement(rng, verb, subject) if has_complement else NOTHING
    return syntax.clause(subject, verb, object, complement=complement, **manner)


def _pronominal(rng: Random) -> Sentence:
    """Draw a clause with an object pronoun: Do you love me?"""
    verb = rng.choice(_OF_PERSONS)
    is_asked = rng.random() < 0.15
    subject = _subject(rng, _SUBJECTS[verb], is_asked=is_asked, pronouns=0.7)
    manner = _manner(rng, verb, subject, is_asked=is_asked, modal=0.0)
    return syntax.clause(
        subject, verb, syntax.object_pronoun(_others(rng, subject.person)), **manner
    )


def _intransitive(rng: Random) -> Sentence:
    """Draw an intransitive clause: The girls went home."""
    verb = rng.choice(_INTRANSITIVE)
    is_asked = rng.random() < 0.15
    subject = _subject(rng, _SUBJECTS[verb], is_asked=is_asked)
    manner = _manner(rng, verb, subject, is_asked=is_asked)
    is_modified = "adverb" in manner and manner["adverb"] in lex.FINAL_ADVERBS
    has_complement = verb in _INCOMPLETE or (not is_modified and rng.random() < 0.5)
    return syntax.clause(
        subject,
        verb,
        complement=_complement(rng, verb, subject) if has_complement else NOTHING,
        **manner,
    )


def _possession(rng: Random) -> Sentence:
    """Draw a clause about possession: They have three cats."""
    is_asked = rng.random() < 0.2
    subject = _subject(rng, _SUBJECTS[lex.HAVE], is_asked=is_asked)
    object = _indefinite(rng, _OBJECTS[lex.HAVE])
    is_counted = object.english[0].text in lex.NUMERALS
    negation = "" if is_counted else _negation(rng, of=subject, is_asked=is_asked, verb=lex.HAVE)
    return syntax.clause(
        subject, lex.HAVE, object, negation=negation, asks=YES_OR_NO if is_asked else None
    )


def _description(rng: Random) -> Sentence:
    """Draw a description: The houses are very old."""
    roll = rng.random()
    is_asked = roll < 0.3
    if rng.random() < 0.35:
        subject = _pronoun(rng, is_asked=is_asked) if rng.random() < 0.7 else _named(rng)
        adjective = rng.choice(_PERSONAL)
    else:
        subject = _noun_phrase(rng, _DESCRIBED, adjectives=0.0, role="topic")
        adjective = rng.choice(_PREDICATES[lex.NOUN[subject.lemma]])
    asks_why = adjective.is_state and roll < 0.12
    degree = (
        rng.choice(adjective.degrees)
        if adjective.degrees and not asks_why and rng.random() < 0.4
        else ""
    )
    if adjective.is_state and not is_asked and not degree and rng.random() < 0.3:
        adverb = rng.choice(tuple(lex.MIDDLE_ADVERBS))
        return syntax.clause(
            subject, lex.BE, complement=syntax.predicate(subject, adjective), adverb=adverb
        )
    return _being(
        rng, subject, syntax.predicate(subject, adjective, degree), is_asked=is_asked, why=asks_why
    )


def _being(
    rng: Random,
    subject: Phrase,
    complement: Phrase,
    *,
    is_asked: bool,
    verb: lex.Verb = lex.BE,
    why: bool = False,
) -> Sentence:
    negation = _negation(rng, of=subject, is_asked=is_asked, verb=verb)
    asks = (syntax.question_word("why") if why else YES_OR_NO) if is_asked else None
    return syntax.clause(subject, verb, complement=complement, negation=negation, asks=asks)


def _feeling(rng: Random) -> Sentence:
    """Draw a clause about a feeling: I am hungry."""
    is_asked = rng.random() < 0.2
    subject = _subject(rng, _PEOPLE, is_asked=is_asked, pronouns=0.7)
    return _being(
        rng,
        subject,
        syntax.fixed(*rng.choice(tuple(lex.FEELINGS.items()))),
        is_asked=is_asked,
        verb=lex.BE_WITH_AVERE,
    )


def _identity(rng: Random) -> Sentence:
    """Draw a clause that equates two phrases: Your cat is a lovely cat; she is a good friend."""
    is_asked = rng.random() < 0.2
    if rng.random() < 0.5:
        noun = rng.choice(_COMPARABLE)
        determiner = rng.choice(
            ("this", "that") if noun in _OWNERLESS else (*lex.POSSESSIVES, "this", "that")
        )
        predicate = syntax.noun_phrase(noun, "a", rng.choice(_BEFORE[noun] + _AFTER[noun]))
        return _being(rng, syntax.noun_phrase(noun, determiner), predicate, is_asked=is_asked)
    subject = _named(rng, pairs=0.5) if rng.random() < 0.7 else _pronoun(rng, is_asked=is_asked)
    noun = rng.choice(_PROFESSIONS)
    owners = tuple(owner for owner in _POSSESSIVES if owner not in _OWN[subject.person % 3])
    determiner = rng.choice(owners) if subject.is_plural or rng.random() < 0.3 else "a"
    attributes = _attributes(rng, noun, 0.4)
    is_woman = subject.gender == "f"
    what = syntax.noun_phrase(
        noun, determiner, *attributes, plural=subject.is_plural, of_a_woman=is_woman
    )
    return _being(rng, subject, what, is_asked=is_asked)


def _location(rng: Random) -> Sentence:
    """Draw a clause about a place: Where is my dog? There is a book on the table."""
    roll = rng.random()
    if roll < 0.3:
        subject = _subject(rng, _LIVING + _PORTABLE, is_asked=True, pronouns=0.15)
        return syntax.clause(subject, lex.BE, asks=syntax.question_word("where"))
    if rng.random() < 0.5:
        nouns, place = _LIVING, _inside(rng, is_definite=True)
    else:
        nouns = _PORTABLE
        support = syntax.noun_phrase(
            rng.choice(_SUPPORTS), rng.choice(("the", "the", *lex.POSSESSIVES))
        )
        on = support.lemma in ("table", "chair")
        place = syntax.prepositional("on" if on else "in", "su" if on else "in", support)
    is_asked = rng.random() < 0.2
    if roll < 0.7:
        return syntax.there_is(_indefinite(rng, nouns), place, asks=is_asked)
    return _being(
        rng, _noun_phrase(rng, nouns, adjectives=0.1, role="topic"), place, is_asked=is_asked
    )


def _sequel(rng: Random) -> Sentence:
    """Draw two clauses about one thing: She buys a car and washes it."""
    first, then_by_noun = rng.choice(_SEQUELS)
    object = _noun_phrase(rng, tuple(then_by_noun), adjectives=0.1)
    then = rng.choice(then_by_noun[lex.NOUN[object.lemma]])
    subject = _subject(rng, _SUBJECTS[lex.HAVE])
    again = syntax.fixed(
        " ".join([word.text for word in subject.english if not subject.italian]), ""
    )
    again = again._replace(person=subject.person, gender=subject.gender)
    tense: Tense = "past" if then.past and rng.random() < 0.6 else "present"
    return syntax.coordinate(
        syntax.clause(subject, first, object, tense=tense),
        syntax.clause(again, then, syntax.anaphor(object), tense=tense),
    )


def _question(rng: Random) -> Sentence:
    """Draw a question with a question word: What does Maria eat? How many dogs do you have?"""
    word = rng.choice((*lex.QUESTION_WORDS, "who", "how many"))
    asks = syntax.question_word(word) if word != "how many" else NOTHING
    subject, object = _pronoun(rng, is_asked=True), NOTHING
    if word == "what":
        verb = rng.choice(_OF_THINGS)
        subject = _subject(rng, _SUBJECTS[verb], is_asked=True)
    elif word == "how many":
        verb = rng.choice((lex.HAVE, lex.HAVE, *lex.verbs("see buy find")))
        asks = syntax.noun_phrase(
            rng.choice([noun for noun in _OBJECTS[verb] if noun.english_plural]), word, plural=True
        )
    elif word == "who":
        verb = rng.choice(_OF_PERSONS)
        if rng.random() < 0.6:
            verb = rng.choice(_TRANSITIVE)
            return syntax.clause(
                asks,
                verb,
                _noun_phrase(rng, _OBJECTS[verb], adjectives=0.15),
                tense=_tense(rng, verb),
            )
    elif rng.random() < 0.4:
        verb = rng.choice({"where": _LOCATED, "when": _EVENTS}.get(word, _TRANSITIVE))
        object = _noun_phrase(rng, _OBJECTS[verb])
    else:
        verb = rng.choice(_LOCAL if word == "where" else _INTRANSITIVE)
        subject = _subject(rng, _SUBJECTS[verb], is_asked=True)
    return syntax.clause(subject, verb, object, tense=_tense(rng, verb), asks=asks)


def _tense(rng: Random, verb: lex.Verb) -> Tense:
    return "past" if verb.past and rng.random() < 0.5 else "present"


# The kinds of sentences, repeated by their weights (in percent).
_DECK: tuple[Callable[[Random], Sentence], ...] = (
    *[_transitive] * 25,
    *[_pronominal] * 15,
    *[_intransitive] * 14,
    *[_sequel] * 12,
    *[_description] * 11,
    *[_question] * 8,
    *[_identity] * 5,
    *[_location] * 5,
    *[_possession] * 4,
    _feeling,
)
