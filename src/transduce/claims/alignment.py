"""Cross-attention aligns words: the word being written attends to the word it translates."""

from transduce.claims.claim import Result, bars, conclude, judge
from transduce.claims.lab import Lab, grammar_pairs, mean, record_each
from transduce.data.batch import encode_pairs
from transduce.decode.alignment import word_indices

GOOD = 0.8  # share of words that a head must align correctly
BETTER = 0.1  # and by how much more than a guess by position


def run(lab: Lab, *, shift: int = 0, n_sentences: int = 150) -> Result:
    """Compare the most attended source word of each head with the alignment of the grammar.

    `shift` reads the attention of a later step, which removes the cause.
    """
    translator = lab.grammar_translator
    pairs = grammar_pairs(n_sentences)
    examples = encode_pairs(pairs, translator.source_vocabulary, translator.target_vocabulary)
    hits: dict[str, list[bool]] = {}
    for pair, example, found in zip(
        pairs, examples, record_each(translator.model, examples), strict=True
    ):
        source = word_indices(example.source[:-1].tolist(), translator.source_vocabulary)
        target = word_indices(example.target[1:-1].tolist(), translator.target_vocabulary)
        gold = set(pair.alignment)
        for t, j in enumerate(target):
            if (t and target[t - 1] == j) or j not in {to for _, to in gold}:
                continue  # only a word's first token, and only words that translate one
            guess = round(j * source[-1] / max(1, target[-1]))
            hits.setdefault("the same position (control)", []).append((guess, j) in gold)
            for at in (name for name in found if name.endswith(".cross.weights")):
                for head, weights in enumerate([*found[at], found[at].mean(dim=0)]):
                    i = int(weights[min(t + shift, len(weights) - 1), :-1].argmax())
                    name = "heads averaged" if head == len(found[at]) else f"head {head + 1}"
                    hits.setdefault(f"layer {int(at.split('.')[1]) + 1}, {name}", []).append(
                        (source[i], j) in gold
                    )
    marks = {name: mean([float(hit) for hit in found]) for name, found in hits.items()}
    control = marks.pop("the same position (control)")
    aligns = f"layer {translator.model.config.alignment_layer + 1}, heads averaged"
    chosen = marks[aligns]
    best = max(marks, key=marks.__getitem__)
    enough = max(GOOD, control + BETTER)
    short = [
        name.replace("layer ", "").replace(", head ", ".").replace(", heads averaged", ".m")
        for name in marks
    ]
    return conclude(
        judge(control < 1 - BETTER, chosen > enough, marks[best] > enough),
        f"In the layer that this program uses for alignment ({aligns}) the most attended source "
        f"word is the correct one for {chosen:.0%} of {len(hits[best])} target words; the best, "
        f"{best}, has {marks[best]:.0%}, the worst, {min(marks, key=marks.__getitem__)}, "
        f"{min(marks.values()):.0%}. Not every head aligns.",
        f"Guessing the word at the same position of the sentence is correct for {control:.0%}.",
        ("most attended by", "correct source word"),
        [*marks.items(), ("the word at the same position (control)", control)],
        bars(
            "Share of target words whose correct source word is found (layer.head; m: heads "
            "averaged; position: control)",
            [*short, "position"],
            {"": [*marks.values(), control]},
        ),
    )
