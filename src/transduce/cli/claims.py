"""`transduce claims`: what the paper and the texts claim, listed, or put to the test with a verdict each."""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import rich.box
from rich.console import Console
from rich.table import Table

from transduce.claims import TEXTS, VERDICTS, Claim, Result, claims
from transduce.claims.page import claims_page, written
from transduce.config import nearest
from transduce.errors import UsageError

LOOKS_INTO = {"yours": "any", "grammar": "en-it", "own": ""}
STYLES = dict(zip(VERDICTS, ("green", "yellow", "dim", "red"), strict=True))


def list_claims(as_json: bool) -> None:
    """What there is to test."""
    if as_json:
        for claim in claims().values():
            print(json.dumps(asdict(claim), ensure_ascii=False))
        return
    table = Table("name", "claim", "said in", "--fast", "-m", box=rich.box.SIMPLE_HEAD)
    for claim in claims().values():
        said = claim.source.split(" (")[0]
        table.add_row(
            claim.name, claim.statement, said, "x" * claim.is_fast, LOOKS_INTO[claim.model]
        )
    Console().print(table)
    Console().print(
        "transduce claims NAME... runs some, --fast those marked x (a minute), --all every one (a quarter of an hour).\n"
        "-m MODEL has MODEL looked into: by claims marked any; by those marked en-it if it translates the generated English "
        f"into Italian, else they take the built-in model; the others build or train models of their own.\n{TEXTS}",
        highlight=False,
    )


def chosen(names: Sequence[str], fast: bool, every: bool) -> list[Claim]:
    """The claims that are asked for."""
    for name in names:
        if name not in claims():
            raise UsageError(f"no claim {name!r}: {nearest(name, claims())}")
    if sum((bool(names), fast, every)) > 1:
        raise UsageError("give names, --fast or --all: one of them")
    return [
        claim
        for claim in claims().values()
        if claim.name in names or every or (fast and claim.is_fast)
    ]


def run_claims(
    model: Path | None, wanted: Sequence[Claim], html: Path | None, as_json: bool
) -> None:
    """Make the experiments; the verdict is a result, not an error."""
    from transduce.cli.inspect import write

    results = {}
    console = Console(stderr=True)
    for claim, result, seconds in experiments(model, wanted, console):
        results[claim.name] = result
        if as_json:
            about = {
                "name": claim.name,
                "statement": claim.statement,
                "source": claim.source,
                "seeds": claim.seeds,
            }
            print(
                json.dumps(
                    {**about, **asdict(result), "seconds": round(seconds, 1)},
                    ensure_ascii=False,
                    default=list,
                ),
                flush=True,
            )
    if not as_json:
        show(results, Console())
    if html is not None:
        command = " ".join(["transduce claims", *sys.argv[2:]])
        write(html, claims_page(results, tested(model), command, time.strftime("%Y-%m-%d")))
        console.print(f"{html}: every experiment with its numbers and plots", highlight=False)


def tested(model: Path | None) -> str:
    """What was tested, for whoever has not seen the code."""
    from transduce.decode.load import load_translator

    translator = load_translator(model)
    config, n_pieces = translator.model.config, len(translator.source_vocabulary)
    which = "one small Transformer that translates generated English sentences into Italian"
    if model is not None:
        which = f"the model {model} (where they need a right translation that it does not know, into the built-in one)"
    return (
        f"Rows that do not speak of models of their own look into {which}: {config.n_layers} layers in each of its two stacks, "
        f"{config.n_heads} heads, vectors of {config.d_model} numbers, {n_pieces:,} pieces; a piece is a word or a part of one. "
        "The grammar that generates the sentences also knows the right translation, and which word belongs to which. Layers "
        "and heads are counted from 1."
    )


def experiments(
    model: Path | None, wanted: Sequence[Claim], console: Console
) -> Iterator[tuple[Claim, Result, float]]:
    """Each claim with its result and how long it took; which one is running is said on the console."""
    import torch

    from transduce.claims.lab import Lab

    lab, n_threads = Lab(model), torch.get_num_threads()
    torch.set_num_threads(1)  # models are so small that threads would mostly wait for each other
    for number, claim in enumerate(wanted, start=1):
        console.print(
            f"{number}/{len(wanted)}  {claim.name}: {claim.title}", style="dim", highlight=False
        )
        start = time.perf_counter()
        yield claim, claim.run(lab), time.perf_counter() - start
    torch.set_num_threads(n_threads)


def show(results: Mapping[str, Result], console: Console) -> None:
    """Verdicts, and the numbers read aloud."""
    table = Table(
        "claim", "verdict", "what was measured", box=rich.box.SIMPLE_HEAD, show_lines=True
    )
    for name, result in results.items():
        verdict = f"[{STYLES[result.verdict]}]{result.verdict}[/]"
        table.add_row(
            f"{name}\n[dim]{claims()[name].source.split(' (')[0]}[/]",
            verdict,
            f"{result.says}\n[dim]Control: {result.control}[/]",
        )
    console.print(table)
    if len(results) == 1:
        (result,) = results.values()
        numbers = Table(*result.headers, box=rich.box.SIMPLE_HEAD)
        for row in result.rows:
            numbers.add_row(*map(written, row))
        console.print(numbers)
