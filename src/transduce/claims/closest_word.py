"""Is the next word the closest one: by dot product, by distance, by angle?"""

import torch
from torch.nn import functional as F

from transduce.claims.claim import Result, bars, conclude, judge
from transduce.claims.lab import Lab, record_each


def run(lab: Lab, *, shared: bool = True, n_sentences: int = 60) -> Result:
    """Compare the last vector of the decoder with all word vectors, by three measures."""
    model, examples = lab.translator.model, lab.own_translations(n_sentences)
    table = model.logit_weight.detach()
    last = model.config.decoder.n_layers - 1
    if not shared:
        table = table[torch.randperm(len(table), generator=torch.Generator().manual_seed(1))]
    hidden, logits = zip(
        *((f[f"dec.{last}.ff.norm"], f["logits"]) for f in record_each(model, examples)),
        strict=True,
    )
    with torch.inference_mode():
        vectors, written = model.decoder.norm(torch.cat(hidden)), torch.cat(logits).argmax(dim=-1)
        by = {
            "largest dot product": (vectors @ table.T).argmax(dim=1),
            "smallest distance": torch.cdist(vectors, table).argmin(dim=1),
            "smallest angle": (F.normalize(vectors, dim=-1) @ F.normalize(table, dim=-1).T).argmax(
                dim=1
            ),
            "token of the previous step (control)": torch.roll(written, 1),
        }
    shares = {name: (found == written).float().mean().item() for name, found in by.items()}
    dot, distance, angle, control = shares.values()
    labels = ["dot product", "distance", "angle", "previous step"]
    return conclude(
        judge(control < 0.5, dot == 1, dot == 1 and min(distance, angle) > 0.99),
        "The written token has the largest dot product with the decoder's vector in "
        f"{dot:.0%} of {len(written)} steps, because the logits are these products. It is the "
        f"nearest by distance in {distance:.0%} and by angle in {angle:.0%}.",
        f"The token of the previous step is the written token in {control:.0%}.",
        ("chosen by", "is the written token"),
        list(shares.items()),
        bars("Share of steps where it is the written token", labels, {"": list(shares.values())}),
    )
