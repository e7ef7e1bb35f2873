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
from transduce.cli.output import check_outputs, stderr_console, stdout_console, write_page
from transduce.config import nearest
from transduce.errors import UsageError

if TYPE_CHECKING:
    from transduce.claims.claim import Claim, Result

EXAMINED_MODELS = {"yours": "any", "grammar": "en-it", "own": ""}  # the column -m of the list
STYLES = ("green", "yellow", "dim", "red")  # of the verdicts, in their order


def claims(
    names: Annotated[
        list[str] | None,
        Argument(metavar="NAME", help="Claims to test. Default: list all claims."),
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
    check_outputs((html,), (), (model,))
    selected = select_claims(names or (), fast=fast, every=every)
    if selected:
        run_claims(model, selected, html=html, as_json=as_json)
    elif html is None:
        list_claims(as_json=as_json)
    else:
        raise UsageError("--html shows results; add names of claims, --fast or --all")


def select_claims(names: Sequence[str], *, fast: bool, every: bool) -> "list[Claim]":
    """Return the claims to run, in the order of the paper; none if nothing is requested."""
    from transduce.claims import claims as all_claims

    registry = all_claims()
    for name in names:
        if name not in registry:
            raise UsageError(f"no claim {name!r}; {nearest(name, registry)}")
    if sum([bool(names), fast, every]) > 1:
        raise UsageError("names of claims, --fast and --all exclude each other; give one of them")
    return [
        claim
        for claim in registry.values()
        if claim.name in names or every or (fast and claim.is_fast)
    ]


def list_claims(*, as_json: bool) -> None:
    """Print all claims."""
    from transduce.claims import SOURCES
    from transduce.claims import claims as all_claims

    if as_json:
        for claim in all_claims().values():
            print(json.dumps(asdict(claim), ensure_ascii=False))
        return
    table = Table("name", "claim", "source", "--fast", "-m", box=rich.box.SIMPLE_HEAD)
    for claim in all_claims().values():
        table.add_row(
            claim.name,
            claim.statement,
            _short_source(claim),
            "x" if claim.is_fast else "",
            EXAMINED_MODELS[claim.model],
        )
    console = stdout_console()
    console.print(table)
    console.print(
        "transduce claims NAME... runs the named claims, --fast those marked x (a minute), "
        "--all every claim (a quarter of an hour).\n"
        "-m MODEL is examined by claims marked any. Claims marked en-it examine it if it "
        "translates the generated English into Italian, else the built-in model. "
        f"The others build or train models of their own.\n{SOURCES}",
        highlight=False,
    )


def _short_source(claim: "Claim") -> str:
    return claim.source.split(" (")[0]


def run_claims(
    model: Path | None, selected: "Sequence[Claim]", *, html: Path | None, as_json: bool
) -> None:
    """Run experiments, print their results and write the page, if one is requested.

    A refuted claim is a result, not an error.
    """
    from transduce.claims.page import claims_page

    results = {}
    console = stderr_console()
    for claim, result, seconds in run_experiments(model, selected, console):
        results[claim.name] = result
        if as_json:
            record = {
                "name": claim.name,
                "statement": claim.statement,
                "source": claim.source,
                "seeds": claim.seeds,
                **asdict(result),
                "seconds": round(seconds, 1),
            }
            print(json.dumps(record, ensure_ascii=False, default=list), flush=True)
    if not as_json:
        print_results(results, stdout_console())
    if html is not None:
        command = " ".join(["transduce claims", *sys.argv[2:]])
        about, date = describe_model(model), time.strftime("%Y-%m-%d")
        write_page(html, claims_page(results, about, command, date))
        console.print(f"the page is in {html}", highlight=False)


def run_experiments(
    model: Path | None, selected: "Sequence[Claim]", console: Console
) -> "Iterator[tuple[Claim, Result, float]]":
    """Run experiments one by one; yield each claim, its result and the seconds it took."""
    import torch

    from transduce.claims.lab import Lab

    lab, n_threads = Lab(model), torch.get_num_threads()
    torch.set_num_threads(1)  # the models are so small that more threads are slower
    for number, claim in enumerate(selected, start=1):
        progress = f"{number}/{len(selected)}  {claim.name}: {claim.title}"
        console.print(progress, style="dim", highlight=False)
        start = time.perf_counter()
        result = claim.run(lab)
        yield claim, result, time.perf_counter() - start
    torch.set_num_threads(n_threads)


def print_results(results: "Mapping[str, Result]", console: Console) -> None:
    """Print the verdicts; for a single claim also its numbers."""
    from transduce.claims import claims as all_claims
    from transduce.claims.claim import VERDICTS
    from transduce.claims.page import format_cell

    styles = dict(zip(VERDICTS, STYLES, strict=True))
    table = Table(
        "claim", "verdict", "what was measured", box=rich.box.SIMPLE_HEAD, show_lines=True
    )
    for name, result in results.items():
        table.add_row(
            f"{name}\n[dim]{_short_source(all_claims()[name])}[/]",
            f"[{styles[result.verdict]}]{result.verdict}[/]",
            f"{result.says}\n[dim]Control: {result.control}[/]",
        )
    console.print(table)
    if len(results) == 1:
        (result,) = results.values()
        numbers = Table(*result.headers, box=rich.box.SIMPLE_HEAD)
        for row in result.rows:
            numbers.add_row(*map(format_cell, row))
        console.print(numbers)


def describe_model(model: Path | None) -> str:
    """Return which model was examined, for readers of the page."""
    from transduce.decode.load import load_translator

    translator = load_translator(model, engine="torch")
    config, n_tokens = translator.model.config, len(translator.source_vocabulary)
    if model is None:
        examined = "one small Transformer that translates generated English sentences into Italian"
    else:
        examined = (
            f"the model {model} (or the built-in one, where a correct translation is needed "
            "that this model does not know)"
        )
    encoder, decoder = config.encoder, config.decoder
    layers = f"{encoder.n_layers} layers in each of its two stacks, {encoder.n_heads} heads"
    if encoder != decoder:
        layers = (
            f"{encoder.n_layers} layers of {encoder.n_heads} heads in its encoder, "
            f"{decoder.n_layers} of {decoder.n_heads} in its decoder"
        )
    return (
        f"Claims without models of their own examine {examined}: {layers}, "
        f"vectors of {config.d_model} numbers, "
        f"a vocabulary of {n_tokens:,} tokens; a token is a word or a part of one. "
        "The grammar that "
        "generates the sentences also gives the correct translation and the word alignment. "
        "Layers and heads are counted from 1."
    )
