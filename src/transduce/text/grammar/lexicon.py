"""The words of the English-Italian grammar, with their irregular forms and what they go with.

A noun has one *kind* (person, food...); verbs and adjectives list the kinds, or the single nouns, that they fit.
English words with two readings (read, put, orange...) are left out, so that every sentence has one translation.
"""

from dataclasses import dataclass, replace
from typing import Literal

from transduce.text.grammar.inflection import (
    Gender,
    ending,
    english_past,
    english_s,
    fused,
    italian_plural,
    italian_present,
    like_un,
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
        return (english, self.italian_plural, self.plural_gender) if plural else (english, self.italian, self.gender)


def _noun(kind: str, entry: str) -> Noun:
    """A noun from an entry of the table below."""
    english, gender, italian, *woman = entry.split()
    english, _, many = english.partition("/")
    italian, _, irregular = italian.partition("/")
    irregular, _, turns_feminine = irregular.partition(":")
    own: Gender = "f" if gender == "f" else "m"
    return Noun(
        kind,
        english,
        None if many in ("mass", "singular") else many or english_s(english),
        many == "mass",
        italian,
        irregular or italian_plural(italian),
        own,
        "f" if turns_feminine else own,
        (woman[0], italian_plural(woman[0])) if woman else None,
    )


# Entries: english gender italian, each with /plural if irregular ("uova:f" changes gender), then the form for a woman.
_NOUN_TABLE = {
    "person": "man/men m uomo/uomini, woman/women f donna, boy m ragazzo, girl f ragazza, child/children m bambino,"
    "friend m amico/amici amica, doctor m dottore dottoressa, student m studente studentessa,"
    "teacher m maestro maestra, psychologist m psicologo/psicologi psicologa, actor m attore, actress f attrice",
    "kin": "mother/singular f madre, father/singular m padre, sister f sorella, brother m fratello, son m figlio,"
    "daughter f figlia, uncle m zio/zii, aunt f zia",
    "animal": "cat m gatto, dog m cane, horse m cavallo, bird m uccello, squirrel m scoiattolo, duck f anatra",
    "food": "apple f mela, cake f torta, bread/mass m pane, egg m uovo/uova:f, cheese/mass m formaggio,"
    "soup/mass f zuppa, sandwich m panino, salad f insalata, yogurt m yogurt",
    "drink": "coffee m caffè, wine/mass m vino, water/mass f acqua, tea/mass m tè, milk/mass m latte, beer f birra",
    "thing": "umbrella m ombrello, bag f borsa, backpack m zaino, box f scatola, chair f sedia, table m tavolo,"
    "flower m fiore, phone m telefono",
    "item": "key f chiave, photo f foto/foto, clock m orologio, mirror m specchio, gift m regalo",
    "clothing": "shirt f camicia/camicie, shoe f scarpa, dress m vestito, hat m cappello, jacket f giacca,"
    "scarf/scarves f sciarpa",
    "vehicle": "car f macchina, bicycle f bicicletta",
    "transport": "train m treno, bus m autobus",
    "text": "book m libro, letter f lettera, newspaper m giornale, story f storia",
    "show": "song f canzone, film m film",
    "opening": "door f porta, window f finestra",
    "place": "garden m giardino, park m parco/parchi, room f stanza, shop m negozio, hotel m albergo/alberghi,"
    "stadium m stadio, castle m castello, restaurant m ristorante",
    "sight": "museum m museo, city f città, island f isola",
    "home": "house f casa",
    "goal": "station/singular f stazione, airport/singular m aeroporto, party f festa",
}
NOUNS = tuple(_noun(kind, entry) for kind, entries in _NOUN_TABLE.items() for entry in entries.split(","))
NOUN = {noun.english: noun for noun in NOUNS}
NAMES: tuple[tuple[str, Gender], ...] = (
    ("Maria", "f"), ("Anna", "f"), ("Giulia", "f"), ("Sara", "f"),
    ("Luca", "m"), ("Marco", "m"), ("Paolo", "m"), ("Matteo", "m"),
)  # fmt: skip


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
            stem = stem + "h" if stem[-1] in "cg" else stem.removesuffix("i") if gender == "m" else stem
        return stem + ending(gender, plural)

    def form_before(self, gender: Gender, plural: bool, following: str) -> str:
        """The form before a noun: bello and buono shorten like the articles."""
        if self.italian == "bello":
            return fused("be", gender, plural, following)
        if self.italian == "buono" and not plural:
            return like_un("buon", gender, following)
        return self.form(gender, plural)


_PRENOMINAL = ("bello", "buono", "grande", "piccolo", "vecchio", "giovane", "caro")


def _adjective(
    english: str,
    italian: str,
    attributes: str,
    degrees: str = "",
    *,
    predicates: str | None = None,
    state: bool = False,
    plural: str = "",
) -> Adjective:
    """An adjective from its dictionary form; `predicates` only where they are not the same as the attributes."""
    fits = attributes.split(), (attributes if predicates is None else predicates).split()
    is_prenominal = italian in _PRENOMINAL
    return Adjective(
        english, italian, is_prenominal, tuple(fits[0]), tuple(fits[1]), tuple(degrees.split()), state, plural
    )


_COLORED = "thing clothing vehicle"
_OBJECTS = f"{_COLORED} item"
_BUILT = "place museum home"
_LANDS = "city island"
_EXPERTS = "doctor teacher actor actress psychologist"
_NATIVES = f"man woman boy girl friend student {_EXPERTS}"
ADJECTIVES = (
    _adjective("lovely", "bello", f"boy girl child animal {_OBJECTS} {_BUILT} {_LANDS} text show", "very",
               predicates=f"animal {_OBJECTS} {_BUILT} {_LANDS}"),
    _adjective("beautiful", "bello", f"man woman girl actress animal {_OBJECTS} {_BUILT} {_LANDS}", "very",
               predicates=f"woman girl actress {_OBJECTS} {_BUILT} {_LANDS}"),
    _adjective("good", "buono", f"friend student {_EXPERTS} coffee wine cheese cake bread soup restaurant book film",
               "very", predicates="food drink"),
    _adjective("great", "grande", f"friend {_EXPERTS} city film book", predicates=""),
    _adjective("big", "grande", f"animal thing clock mirror gift opening {_BUILT} {_LANDS} station", "very too"),
    _adjective("small", "piccolo", f"animal thing item car opening {_BUILT} island station airport", "very too"),
    _adjective("old", "vecchio", f"friend teacher animal {_OBJECTS} {_BUILT} text train bus station", "very too",
               predicates=f"man woman friend teacher animal {_OBJECTS} {_BUILT} text train bus station"),
    _adjective("young", "giovane", f"man woman student {_EXPERTS}", "very too", predicates=f"man woman {_EXPERTS}"),
    _adjective("dear", "caro", "friend kin", predicates=""),
    _adjective("new", "nuovo", f"{_OBJECTS} {_BUILT} book film song newspaper train bus station airport"),
    _adjective("red", "rosso", f"{_COLORED} apple door train"),
    _adjective("white", "bianco", f"{_COLORED} cat dog horse duck door house"),
    _adjective("black", "nero", f"{_COLORED} cat dog horse bird"),
    _adjective("green", "verde", f"{_COLORED} apple bird door bus"),
    _adjective("yellow", "giallo", f"{_COLORED} apple bird house bus"),
    _adjective("Italian", "italiano", f"{_NATIVES} cheese wine beer film song car newspaper restaurant city"),
    _adjective("English", "inglese", f"{_NATIVES} cheese tea beer film song car newspaper"),
    _adjective("famous", "famoso", f"{_EXPERTS} book story song film castle restaurant museum city", "very"),
    _adjective("intelligent", "intelligente", "man woman boy girl child student dog horse", "very",
               predicates="person kin dog horse"),
    _adjective("nice", "simpatico", f"{_NATIVES} child", "very", predicates="person kin", plural="simpatici"),
    _adjective("rich", "ricco", f"man woman {_EXPERTS}", "very too", predicates=f"man woman uncle aunt {_EXPERTS}"),
    _adjective("happy", "felice", "child boy girl man woman dog", "very", predicates="person kin dog cat", state=True),
    _adjective("sad", "triste", "child man woman story song film letter", "very too",
               predicates="person kin dog story song film", state=True),
    _adjective("sick", "malato", "child animal", "very", predicates="person kin animal", state=True),
    _adjective("fresh", "fresco", "bread cheese egg salad sandwich yogurt milk water", "very"),
    _adjective("hot", "caldo", "soup bread sandwich coffee tea milk water", "very too"),
    _adjective("cold", "freddo", "soup sandwich salad yogurt coffee tea milk water beer", "very too"),
    _adjective("delicious", "squisito", "food wine coffee beer"),
    _adjective("interesting", "interessante", "text show museum city", "very"),
    _adjective("long", "lungo", "letter story book song film dress scarf", "very too"),
    _adjective("elegant", "elegante", "clothing woman actress bag restaurant hotel", "very too"),
    _adjective("expensive", "costoso", "clothing vehicle clock phone bag hotel restaurant wine gift", "very too"),
    _adjective("tired", "stanco", "", "very too", predicates="person kin animal", state=True),
    _adjective("ready", "pronto", "", predicates="person kin cake soup coffee tea salad", state=True),
)  # fmt: skip
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


def _verb(
    english: str,
    infinitive: str,
    objects: str = "",
    *,
    past: str | None = None,
    participle: str = "",
    present: str = "",
    isc: bool = False,
    essere: bool = False,
    subjects: str = "person kin",
    complements: str = "",
    adverbs: str = "often always",
) -> Verb:
    """A verb from its dictionary forms; `past=""` for a verb that the grammar uses in the present only."""
    base, _, particle = english.partition(" ")
    regular = infinitive[:-3] + {"are": "ato", "ere": "uto", "ire": "ito"}[infinitive[-3:]]
    return Verb(
        english,
        base,
        english_s(base),
        english_past(base) if past is None else past,
        particle,
        infinitive,
        tuple(present.split()) or italian_present(infinitive, isc=isc),
        participle or regular,
        essere,
        tuple(subjects.split()),
        tuple(objects.split()),
        tuple(complements.split()),
        tuple(adverbs.split()),
    )


_LIVING = "person kin animal"
VERBS = (
    _verb("love", "amare", "person kin animal city island", past="", adverbs="still very_much"),
    _verb("see", "vedere", f"{_LIVING} vehicle transport film flower photo place sight home goal", past="saw",
          participle="visto", subjects=_LIVING),
    _verb("eat", "mangiare", "food", past="ate", subjects=_LIVING, complements="in with"),
    _verb("drink", "bere", "drink", past="drank", participle="bevuto", present="bevo bevi beve beviamo bevete bevono",
          complements="in with"),
    _verb("buy", "comprare", f"food drink newspaper book house {_OBJECTS}", past="bought"),
    _verb("sell", "vendere", f"{_OBJECTS} house book horse", past="sold"),
    _verb("find", "trovare", f"animal child {_OBJECTS} letter book hotel restaurant", past="found", subjects=_LIVING,
          complements="in"),
    _verb("lose", "perdere", f"{_OBJECTS} letter book", past="lost", participle="perso", complements="in"),
    _verb("wash", "lavare", "clothing vehicle window dog horse apple"),
    _verb("clean", "pulire", "house room garden park table window mirror shoe shop", isc=True),
    _verb("open", "aprire", "opening box bag backpack letter umbrella shop gift", participle="aperto"),
    _verb("close", "chiudere", "opening box bag backpack book umbrella shop", participle="chiuso"),
    _verb("write", "scrivere", "letter book story song", past="wrote", participle="scritto"),
    _verb("prepare", "preparare", "cake soup sandwich salad coffee tea", complements="with"),
    _verb("know", "conoscere", "person sight song story restaurant", past="", adverbs="well"),
    _verb("meet", "incontrare", "person kin", past="met", complements="in"),
    _verb("call", "chiamare", "person kin dog cat"),
    _verb("greet", "salutare", "person kin"),
    _verb("help", "aiutare", "person kin animal"),
    _verb("thank", "ringraziare", "person kin"),
    _verb("wait for", "aspettare", "person kin transport letter", complements="in with"),
    _verb("look for", "cercare", f"person kin animal letter book hotel restaurant {_OBJECTS}", subjects=_LIVING,
          complements="in"),
    _verb("listen to", "ascoltare", "song story person kin bird", complements="with"),
    _verb("drive", "guidare", "car bus", past="drove", adverbs="often always well"),
    _verb("follow", "seguire", "person kin animal car bus", subjects=_LIVING),
    _verb("understand", "capire", "person kin story letter film song", past="understood", isc=True,
          adverbs="always well"),
    _verb("prefer", "preferire", "food drink clothing vehicle film song", past="", isc=True, adverbs=""),
    _verb("visit", "visitare", "sight castle", complements="with"),
    _verb("sleep", "dormire", past="slept", subjects=_LIVING, complements="in at_home here",
          adverbs="often always still well a_lot"),
    _verb("work", "lavorare", complements="in with at_home here", adverbs="often always still a_lot"),
    _verb("sing", "cantare", past="sang", subjects="person kin bird", complements="in with",
          adverbs="often always well"),
    _verb("dance", "ballare", complements="in with", adverbs="often always well"),
    _verb("play", "giocare", subjects="boy girl child son daughter brother sister friend animal",
          complements="in with", adverbs="often always still well"),
    _verb("speak", "parlare", past="spoke", complements="with", adverbs="often always well a_lot"),
    _verb("arrive", "arrivare", essere=True, subjects="person kin transport", complements="with"),
    _verb("leave", "partire", past="left", essere=True, subjects="person kin transport", complements="with"),
    _verb("go", "andare", past="went", essere=True, present="vado vai va andiamo andate vanno",
          complements="to home with"),
    _verb("come", "venire", past="came", essere=True, participle="venuto",
          present="vengo vieni viene veniamo venite vengono", complements="to home with here"),
    _verb("return", "tornare", essere=True, complements="to home"),
    _verb("stay", "restare", essere=True, complements="in with at_home here"),
)  # fmt: skip
VERB = {verb.lemma: verb for verb in VERBS}

BE = _verb("be", "essere", past="", essere=True, present="sono sei è siamo siete sono")
BE_ENGLISH = ("am", "are", "is", "are", "are", "are")
HAVE = replace(
    _verb("have", "avere", f"sister brother son daughter uncle aunt friend animal house book {_OBJECTS}", past="",
          present="ho hai ha abbiamo avete hanno"),
    third="has",
)  # fmt: skip
BE_WITH_AVERE = replace(BE, present=HAVE.present)  # I am hungry: ho fame
FEELINGS = {"hungry": "fame", "thirsty": "sete", "sleepy": "sonno", "right": "ragione", "afraid": "paura"}
WANT = _verb("want", "volere", past="", present="voglio vuoi vuole vogliamo volete vogliono")
MUST = _verb("must", "dovere", past="", present="devo devi deve dobbiamo dovete devono")


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


PRONOUNS = (
    Pronoun("I", "me", "mi", "me", 0, "m"),
    Pronoun("you", "you", "ti", "te", 1, "m"),
    Pronoun("he", "him", "lo", "lui", 2, "m"),
    Pronoun("she", "her", "la", "lei", 2, "f"),
    Pronoun("we", "us", "ci", "noi", 3, "m"),
    Pronoun("you all", "you all", "vi", "voi", 4, "m"),
    Pronoun("they", "them", "li", "loro", 5, "m"),
)
PRONOUN = {pronoun.subject: pronoun for pronoun in PRONOUNS}
CLITICS: dict[tuple[Gender, bool], str] = {("m", False): "lo", ("f", False): "la", ("m", True): "li", ("f", True): "le"}

# The four Italian forms of each: masculine, feminine, masculine plural, feminine plural.
POSSESSIVES = {
    "my": ("mio", "mia", "miei", "mie"),
    "your": ("tuo", "tua", "tuoi", "tue"),
    "his": ("suo", "sua", "suoi", "sue"),
    "her": ("suo", "sua", "suoi", "sue"),
    "our": ("nostro", "nostra", "nostri", "nostre"),
    "their": ("loro", "loro", "loro", "loro"),
}
NUMERALS = {"two": "due", "three": "tre", "four": "quattro", "five": "cinque", "ten": "dieci"}
INVARIABLE_DETERMINERS = {**NUMERALS, "every": "ogni"}
QUANTIFIERS = {"many": "molt", "how many": "quant"}  # stems: molti, molte, quanti, quante
DEGREES = {"very": "molto", "too": "troppo"}
MIDDLE_ADVERBS = {"often": "spesso", "always": "sempre", "still": "ancora", "never": "mai"}  # before the English verb
FINAL_ADVERBS = {"very much": "molto", "a lot": "molto", "well": "bene"}  # after the English verb and its object
EXPRESSIONS = {"home": "a casa", "at home": "a casa", "here": "qui"}
TIMES = {"today": "oggi", "yesterday": "ieri", "tomorrow": "domani", "every day": "ogni giorno"}
QUESTION_WORDS = {"where": "dove", "what": "cosa", "who": "chi", "why": "perché", "when": "quando"}
