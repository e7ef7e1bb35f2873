"""Run one pass with Eq. 1 spelled out and record every tensor by name."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from transduce.inspection.edits import Edit, edited_attention
from transduce.model import LanguageModel, Transformer
from transduce.model.positions import sinusoids
from transduce.model.weights import shared_copy

Model = Transformer | LanguageModel
Record = Callable[[str, Tensor], None]
MAX_LOGITS = 1 << 24  # in one batch of sources that each have one hidden token


def heads_per_attention(model: Model) -> dict[str, int]:
    """Return the number of heads of each attention, by name, in the order of Figure 1."""
    config = model.config
    stacks = (
        [("enc", config.encoder, ("self",)), ("dec", config.decoder, ("self", "cross"))]
        if isinstance(model, Transformer)
        else [("dec", config.decoder, ("self",))]
    )
    return {
        f"{name}.{i}.{kind}": stack.n_heads
        for name, stack, kinds in stacks
        for i in range(stack.n_layers)
        for kind in kinds
    }


def remove_positions(model: Model) -> None:
    """Replace the positional encodings of a model by zeros, in place."""
    for embedding in _embeddings_by_side(model).values():
        embedding.positions = NoPositions(model.config.d_model)


class NoPositions(torch.nn.Module):
    """Positional encodings that are all zero."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model

    def forward(self, start: int, length: int) -> Tensor:
        """Return zeros for positions start, start+1, ..."""
        return torch.zeros(length, self.d_model)


def instrument(model: Model, edits: Sequence[Edit], record: Record | None) -> None:
    """Replace every attention of a model, in place, by Eq. 1 spelled out with the edits.

    If `record` is given, it receives the input and output of every sub-layer by name. The change is
    permanent: apply this to a `shared_copy`.
    """
    for stack, layers in _stacks(model).items():
        for i, layer in enumerate(layers):
            for part, name in (
                ("self_attention", "self"),
                ("cross_attention", "cross"),
                ("feed_forward", "ff"),
            ):
                sub = getattr(layer, part, None)
                if sub is None:
                    continue
                at = f"{stack}.{i}.{name}"
                if name != "ff":
                    sub.attend = edited_attention(at, edits, record)
                if record is not None:
                    _hook(at, sub, getattr(layer, f"{part}_norm"), record)


def _stacks(model: Model) -> dict[str, Any]:
    encoder = {"enc": model.encoder} if isinstance(model, Transformer) else {}
    return {**encoder, "dec": model.decoder.layers}


def _embeddings_by_side(model: Model) -> dict[str, Any]:
    """Return the embeddings by side: "src" and "tgt"."""
    if isinstance(model, LanguageModel):
        return {"tgt": model.embedding}
    return {"src": model.source_embedding, "tgt": model.target_embedding}


def _hook(at: str, sub: Any, norm: Any, record: Record) -> None:
    def keep(module: Any, given: tuple[Any, ...], out: Tensor) -> None:
        record(f"{at}.in", given[0][0])
        record(f"{at}.out", out[0])

    def keep_hidden(module: Any, given: tuple[Tensor, ...], out: Tensor) -> None:
        record(f"{at}.hidden", sub.activation(out[0]))

    def keep_sum(module: Any, given: tuple[Tensor, Tensor], out: Tensor) -> None:
        record(f"{at}.add", given[0][0] + given[1][0])
        record(f"{at}.norm", out[0])

    sub.register_forward_hook(keep)
    norm.register_forward_hook(keep_sum)
    if at.endswith(".ff"):
        sub.w_1.register_forward_hook(keep_hidden)


def compute_logits(model: Model, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """Run one pass over all positions and return the logits of every step."""
    if isinstance(model, LanguageModel):
        return model(torch.tensor([target]))[0]
    ids = torch.tensor([source])
    return model(ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([target]))[0]


def record_all(
    model: Model,
    source: Sequence[int],
    target: Sequence[int],
    choose: Callable[[Tensor], list[int]],
    edits: Sequence[Edit],
) -> dict[str, Tensor]:
    """Run the model once and return all tensors of a trace by name.

    `choose` returns the token written at each step, given the logits.
    """
    tensors: dict[str, Tensor] = {}

    def keep(name: str, value: Tensor) -> None:
        tensors[name] = value.detach().clone()

    instrument(model, edits, keep)
    with torch.no_grad():
        tensors["logits"] = compute_logits(model, source, target)
    _record_embeddings(model, tensors, source, target)
    config = model.config
    for at, n_heads in heads_per_attention(model).items():
        stack, number, kind = at.split(".")
        attention = getattr(_stacks(model)[stack][int(number)], f"{kind}_attention")
        w_o = attention.w_o.weight.detach().unflatten(1, (n_heads, -1))
        tensors[f"{at}.wrote"] = torch.einsum("hqv,dhv->hqd", tensors[f"{at}.heads"], w_o).norm(
            dim=-1
        )
    with torch.no_grad():
        for i in range(config.decoder.n_layers):
            tensors["dec.out"] = model.decoder.norm(tensors[f"dec.{i}.ff.norm"])
            tensors[f"lens.{i}"] = model.logits(tensors["dec.out"])
        if isinstance(model, Transformer):
            last = config.encoder.n_layers - 1
            tensors["enc.out"] = model.encoder_norm(tensors[f"enc.{last}.ff.norm"])
    if isinstance(model, Transformer):
        plain = shared_copy(model)  # the same model, without recording
        for module in plain.modules():
            module._forward_hooks.clear()
        instrument(plain, edits, None)
        chosen = torch.tensor(choose(tensors["logits"]))
        tensors["align.attention"] = tensors[f"dec.{config.alignment_layer}.cross.weights"].mean(
            dim=0
        )
        tensors["align.occlusion"] = _occlusion(plain, source, target, chosen, tensors["logits"])
        tensors["align.gradient"] = _gradient(plain, source, target, chosen)
    return tensors


def _record_embeddings(
    model: Model, tensors: dict[str, Tensor], source: Sequence[int], target: Sequence[int]
) -> None:
    d_model = model.config.d_model
    for side, embedding in _embeddings_by_side(model).items():
        ids = source if side == "src" else target
        tensors[f"{side}.emb"] = embedding.weight.detach()[list(ids)] * embedding.scale
        if embedding.positions is None:
            tensors[f"{side}.pos"] = sinusoids(0, len(ids), d_model, torch.device("cpu"))
        else:
            tensors[f"{side}.pos"] = embedding.positions(0, len(ids)).detach()
        tensors[f"{side}.x"] = tensors[f"{side}.emb"] + tensors[f"{side}.pos"]


def _occlusion(
    model: Transformer, source: Sequence[int], target: Sequence[int], chosen: Tensor, logits: Tensor
) -> Tensor:
    """Return the log-probability that each written token loses when a source token is hidden.

    Hidden means masked in every attention. Where the log-probability rises, the loss is zero.
    """
    n = len(source)
    masks = ~torch.eye(n, dtype=torch.bool)  # row i hides source token i
    n_batches = math.ceil(n * logits.numel() / MAX_LOGITS)
    losses = []
    with torch.no_grad():
        complete = torch.log_softmax(logits, dim=-1).gather(1, chosen[:, None])
        for mask in torch.tensor_split(masks, n_batches):
            size = len(mask)
            sources = torch.tensor([source]).expand(size, -1)
            targets = torch.tensor([target]).expand(size, -1)
            log_probs = torch.log_softmax(model(sources, mask, targets), dim=-1)
            written = chosen[None, :, None].expand(size, -1, -1)
            losses.append(log_probs.gather(2, written)[:, :, 0])
        return (complete - torch.cat(losses).T).clamp(min=0)


def _gradient(
    model: Transformer, source: Sequence[int], target: Sequence[int], chosen: Tensor
) -> Tensor:
    """Return gradient x input for each written token and each source token.

    This is the dot product of the source vector with the gradient of the written token's
    log-probability with respect to that vector.
    """
    leaf: list[Tensor] = []

    def replace_output(module: Any, given: Any, out: Tensor) -> Tensor | None:
        if leaf:
            return None  # the second call embeds the target, if both sides share one embedding
        leaf.append(out.detach().requires_grad_())
        return leaf[0]

    handle = model.source_embedding.register_forward_hook(replace_output)
    with torch.enable_grad():
        log_probs = torch.log_softmax(compute_logits(model, source, target), dim=-1)
        handle.remove()
        rows = []
        for t, token in enumerate(chosen.tolist()):
            (gradient,) = torch.autograd.grad(log_probs[t, token], leaf[0], retain_graph=True)
            rows.append((gradient[0] * leaf[0][0]).sum(dim=-1).detach())
    return torch.stack(rows)
