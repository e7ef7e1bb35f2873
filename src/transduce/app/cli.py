"""The command line: reads arguments, calls the library, prints. Data on stdout, everything else on stderr.

Nothing heavy is imported before a command needs it, so that `--help` answers at once.
"""

import json
import signal
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from transduce.config import Layer, parse_assignment, read_toml
from transduce.errors import TransduceError, UsageError

if TYPE_CHECKING:
    from transduce.decode.translator import Translation
    from transduce.evaluate import Score

LINES_AT_ONCE = 512

app = typer.Typer(
    help="The Transformer of 'Attention Is All You Need': from two text files to a translator.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
Model = Annotated[
    Path | None, typer.Option("-m", "--model", help="model folder or run folder; left out, the built-in en-it model")
]
Json = Annotated[bool, typer.Option("--json", help="for programs: one JSON object a line")]


def main() -> None:
    """Run the command line; our own errors become one line on stderr and their exit code."""
    try:
        app()
    except TransduceError as error:
        print(f"transduce: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _print_version(wanted: bool) -> None:
    if wanted:
        from transduce import __version__

        print(f"transduce {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    keep: Annotated[Path | None, typer.Option(help="keep the run in this folder")] = None,
) -> None:
    """Train English -> Italian here and now (a minute or two), score it, show its time steps."""
    import tempfile

    from transduce.app.demo import run_demo

    with tempfile.TemporaryDirectory() as temporary:
        run_demo(keep or Path(temporary) / "demo", Console(soft_wrap=True), _stderr())


@app.command()
def train(
    run: Annotated[
        Path, typer.Argument(help="folder for the run: settings, metrics, checkpoints, model", show_default=False)
    ],
    source: Annotated[Path, typer.Option(help="text to translate from, one sentence a line", show_default=False)],
    target: Annotated[Path, typer.Option(help="its translation, line by line", show_default=False)],
    valid_source: Annotated[Path | None, typer.Option(help="validation set; left out, split off")] = None,
    valid_target: Annotated[Path | None, typer.Option(help="its translation")] = None,
    preset: Annotated[str | None, typer.Option(help="nano, tiny, small, base, big or a row of Table 3")] = None,
    config: Annotated[Path | None, typer.Option(help="a TOML file of settings, such as another run's run.toml")] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="any setting; repeat it for more")
    ] = None,
) -> None:
    """Train a translator from two text files. Everything you do not say is chosen from the corpus.

    transduce train runs/en-it --source train.en --target train.it
    """
    settings: list[Layer] = [read_toml(config)] if config else []
    settings += [parse_assignment(text) for text in assignments or []]
    from transduce.app.run import train as train_run

    train_run(run, source, target, valid_source, valid_target, preset, settings, _stderr())


@app.command()
def translate(
    model: Model = None,
    beam: Annotated[
        int | None, typer.Option(help="width of beam search; 1 is greedy; left out, the model's own")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="strength of the length penalty; left out, the model's own")
    ] = None,
    max_length: Annotated[int | None, typer.Option(help="most pieces of a translation; left out, input + 50")] = None,
    sample: Annotated[bool, typer.Option("--sample", help="draw translations instead of searching the best")] = False,
    temperature: Annotated[float, typer.Option(min=0.0, help="with --sample: below 1 sharper, above 1 wilder")] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="with --sample: only the k likeliest pieces; 0 is all")] = 0,
    top_p: Annotated[float, typer.Option(min=0.01, max=1.0, help="with --sample: the likeliest that reach p")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="with --sample: same seed, same draw")] = 1,
    as_json: Json = False,
) -> None:
    """Translate standard input, line by line: one line out for each line in, blank stays blank.

    echo "I love you very much" | transduce translate
    """
    from transduce.decode.translator import Sampling, load

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends us quietly
    translator = load(model)
    sampling = Sampling(temperature, top_k, top_p, seed) if sample else None
    lines = _stdin_lines()
    n_read = 0
    while chunk := list(islice(lines, 1 if sys.stdin.isatty() else LINES_AT_ONCE)):
        for translation in translator.translate(chunk, beam, alpha, max_length, sampling):
            n_read += 1
            _warn(n_read, translation)
            text = " ".join(translation.text.splitlines())
            if as_json:
                record = {"source": translation.source, "text": text, "score": translation.score}
                text = json.dumps({**record, "unseen": translation.unseen, "truncated": translation.truncated})
            sys.stdout.buffer.write(text.encode() + b"\n")
        sys.stdout.buffer.flush()


@app.command()
def evaluate(
    reference: Annotated[Path, typer.Option(help="the right translations", show_default=False)],
    source: Annotated[Path | None, typer.Option(help="text to translate with the model")] = None,
    hypothesis: Annotated[Path | None, typer.Option(help="translations made elsewhere, instead of --source")] = None,
    model: Model = None,
    tokenize: Annotated[
        str, typer.Option(help="sacreBLEU's: 13a, intl, char, zh, none (text already tokenised)")
    ] = "13a",
    beam: Annotated[int | None, typer.Option(help="width of beam search; left out, the model's own")] = None,
    alpha: Annotated[
        float | None, typer.Option(help="strength of the length penalty; left out, the model's own")
    ] = None,
    as_json: Json = False,
) -> None:
    """Score translations with BLEU (and its signature) and exact match."""
    if (source is None) == (hypothesis is None):
        raise UsageError("give either --source (to translate with the model) or --hypothesis (translations to score)")
    from transduce import evaluate as scores
    from transduce.decode.translator import load
    from transduce.text.corpus import read_lines

    references = list(read_lines(reference))
    suffix = ""
    if hypothesis is not None:
        found = list(read_lines(hypothesis))
    else:
        assert source is not None, "one of the two is there"
        translator = load(model)
        texts = list(read_lines(source))
        scores.check_lengths(texts, references)
        found = [translation.text for translation in translator.translate(texts, beam, alpha)]
        settings = translator.settings(beam, alpha)
        suffix = f"|beam:{settings.beam}|alpha:{settings.alpha}|penalty:{settings.length_penalty}"
    for score in (scores.bleu(found, references, tokenize), scores.exact_match(found, references)):
        _print_score(score, suffix, as_json)


@app.command()
def info(
    model: Model = None,
    preset: Annotated[str | None, typer.Option(help="a named shape instead of a model")] = None,
    vocab: Annotated[int, typer.Option(min=1, help="with --preset: pieces of the joint vocabulary")] = 37_000,
    as_json: Json = False,
) -> None:
    """Show the shape of a model and its parameters by part.

    transduce info --preset base --vocab 37000
    """
    from transduce.app.info import describe_model, describe_preset

    if model is not None and preset is not None:
        raise UsageError("give either -m MODEL or --preset NAME, not both")
    description = describe_preset(preset, vocab) if preset is not None else describe_model(model)
    print(json.dumps(description.as_dict()) if as_json else description.as_text())


def _stderr() -> Console:
    return Console(stderr=True, soft_wrap=True)


def _stdin_lines() -> Iterator[str]:
    for number, line in enumerate(sys.stdin.buffer, start=1):
        text = (
            line.removesuffix(b"\n")
            .removesuffix(b"\r")
            .decode("utf-8-sig" if number == 1 else "utf-8", errors="replace")
        )
        if "�" in text and "�".encode() not in line:
            print(f"transduce: line {number}: bytes that are not UTF-8 were replaced by U+FFFD", file=sys.stderr)
        yield text


def _warn(number: int, translation: "Translation") -> None:
    if translation.unseen:
        words = ", ".join(translation.unseen)
        print(f"transduce: line {number}: not in the training text, so perhaps mistranslated: {words}", file=sys.stderr)
    if translation.truncated:
        print(f"transduce: line {number}: the translation was cut at its maximum length", file=sys.stderr)


def _print_score(score: "Score", suffix: str, as_json: bool) -> None:
    signature = score.signature + suffix
    if as_json:
        print(json.dumps({"name": score.name, "value": score.value, "signature": signature}))
    else:
        print(f"{score.name} {score.value:.2f}   {signature}")
