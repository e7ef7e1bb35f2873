"""Rules: functions that forbid or favour pieces while searching."""

from jaxtyping import Float, Int
from torch import Tensor

from transduce.decode.search import NEVER, Rule
from transduce.text.vocabulary import PAD, SOS, UNKNOWN


def never(*pieces: int) -> Rule:
    """Forbid pieces everywhere."""

    def rule(prefixes: Int[Tensor, "row length"], log_probs: Float[Tensor, "row vocab"]) -> Float[Tensor, "row vocab"]:
        return log_probs.index_fill(1, log_probs.new_tensor(pieces).long(), NEVER)

    return rule


only_text = never(PAD, SOS, UNKNOWN)  # a translation is made of text and ends in [EOS]
