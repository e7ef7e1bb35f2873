"""`transduce claims`: test what the paper and the texts about it claim."""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import rich.box
from rich.console import Console
from rich.table import Table
from typer import Argument, Option

from transduce.cli.arguments import FileOption, JsonOutput, ModelPath
from transduce.cli.output import write_page
from transduce.config import nearest
from transduce.errors import UsageError

if TYPE_CHECKING:
    from transduce.claims import Claim, Result

LOOKS_INTO = {"yours": "any", "grammar": "en-it", "own": ""}
STYLES = ("green", "yellow", "dim", "red")  # of the verdicts, in their order


def claims(
    names: Annotated[
        list[str] | None, Argument(help="Claims to test. Default: list all claims.")
    ] = None,
    model: ModelPath = None,
    fast: Annotated[
        bool, Option("--fast", help="Test the claims that take about a minute together.")
    ] = False,
    every: Annotated[
        bool, Option("--all", help="Test every claim; takes about a quarter of an hour.")
    ] = False,
    html: Annotated[Path | None, FileOption(help="Write a page with all plots.")] = None,
    as_json: JsonOutput = False,
) -> None:
    """Test what the paper and the texts about it claim.

    Each claim is an experiment with a control, numbers and a verdict.

    \b
    Examples:
      transduce claims
      transduce claims causal_mask diagonal
      transduce claims --fast -m runs/en-it --html out.html
    """
    selected = chosen(names or (), fast, every)
    if selected:
        run_claims(model, selected, html, as_json)
    elif html is None:
        list_claims(as_json)
    else:
        raise UsageError("--html shows results; add names of claims, --fast or --all")


def list_claims(as_json: bool) -> None:
    """What there is to test."""
    from transduce.claims import TEXTS
    from transduce.claims import claims as all_claims

    if as_json:
        for claim in all_claims().values():
            print(json.dumps(asdict(claim), ensure_ascii=False))
        return
    table = Table("name", "claim", "said in", "--fast", "-m", box=rich.box.SIMPLE_HEAD)
    for claim in all_claims().values():
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


def chosen(names: Sequence[str], fast: bool, every: bool) -> "list[Claim]":
    """The claims that are asked for."""
    from transduce.claims import claims as all_claims

    for name in names:
        if name not in all_claims():
            raise UsageError(f"no claim {name!r}: {nearest(name, all_claims())}")
    if sum((bool(names), fast, every)) > 1:
        raise UsageError("give names, --fast or --all: one of them")
    return [
        claim
        for claim in all_claims().values()
        if claim.name in names or every or (fast and claim.is_fast)
    ]


def run_claims(
    model: Path | None, wanted: "Sequence[Claim]", html: Path | None, as_json: bool
) -> None:
    """Make the experiments; the verdict is a result, not an error."""
    from transduce.claims.page import claims_page

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
        write_page(html, claims_page(results, tested(model), command, time.strftime("%Y-%m-%d")))
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
    model: Path | None, wanted: "Sequence[Claim]", console: Console
) -> "Iterator[tuple[Claim, Result, float]]":
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


def show(results: "Mapping[str, Result]", console: Console) -> None:
    """Verdicts, and the numbers read aloud."""
    from transduce.claims import VERDICTS
    from transduce.claims import claims as all_claims
    from transduce.claims.page import written

    styles = dict(zip(VERDICTS, STYLES, strict=True))
    table = Table(
        "claim", "verdict", "what was measured", box=rich.box.SIMPLE_HEAD, show_lines=True
    )
    for name, result in results.items():
        verdict = f"[{styles[result.verdict]}]{result.verdict}[/]"
        table.add_row(
            f"{name}\n[dim]{all_claims()[name].source.split(' (')[0]}[/]",
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
