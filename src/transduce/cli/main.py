"""The command line: reads arguments, calls the library, prints. Data on stdout, everything else on stderr.

Nothing heavy is imported before a command needs it, so that `--help` answers at once.
"""

import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal, NoReturn, TextIO

import typer
from rich.console import Console
from typer import Argument, Option

from transduce.config import Layer, parse_assignment, read_toml
from transduce.errors import StoppedError, StorageError, TransduceError, UsageError
from transduce.text.files import check_stdin_used_once

app = typer.Typer(
    help="The Transformer of 'Attention Is All You Need': from two text files to a translator.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
Texts = list[str] | None
File = partial(Option, metavar="FILE")
Model = Annotated[
    Path | None,
    Option("-m", "--model", help="model folder or run folder; left out, the built-in en-it model"),
]
Beam = Annotated[
    int | None, Option(help="width of beam search; 1 is greedy; left out, the model's own")
]
Alpha = Annotated[
    float | None, Option(help="strength of the length penalty; left out, the model's own")
]
LengthPenalty = Annotated[
    str | None, Option(help="power or paper (Wu et al.); left out, the model's own")
]
Sources = Annotated[
    Texts, File(help="text to translate from, one sentence a line; repeat it for more")
]
Targets = Annotated[Texts, File(help="its translation, line by line")]
Pairs = Annotated[Texts, File(help="both sides in one file: .tsv, or .jsonl with two fields")]
Fields = Annotated[
    str | None, Option(help="of .jsonl: source,target if not said", metavar="SOURCE,TARGET")
]
Languages = Annotated[
    str | None,
    Option(help="for example en,de; left out, from the suffixes of the files", metavar="FROM,TO"),
]
Preset = Annotated[str | None, Option(help="nano, tiny, small, base, big or a row of Table 3")]
Settings = Annotated[
    Path | None, Option("--config", help="a TOML file of settings, such as another run's run.toml")
]
Assignments = Annotated[
    Texts, Option("--set", metavar="SECTION.KEY=VALUE", help="any setting; repeat it for more")
]
Engine = Literal["auto", "torch", "ctranslate2"]
Precision = Literal["float32", "bf16", "int8"]
Kind = Literal["self", "cross", "enc"]
References = Annotated[
    list[Path] | None, File(help="the right translations; repeat it for several")
]
Tokenize = Annotated[
    str, Option(help="sacreBLEU's: 13a, intl, char, zh, none (text already tokenised)")
]
Json = Annotated[bool, Option("--json", help="for programs: one JSON object a line")]


def main() -> None:
    """Run the command line; our own errors become one line on stderr and their exit code."""
    # Before torch is there: its threads shall spin only briefly while they wait for each other, then sleep. On a machine whose
    # cores are busy with something else, long spinning made training many times slower (docs/decisions.md).
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    _open_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(
            encoding="utf-8", errors="backslashreplace"
        )  # text is text, whatever the locale says
    sys.stderr = _Unheard(sys.stderr)  # what nobody can hear must not end the work
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends us quietly
    signal.signal(signal.SIGINT, _interrupted)
    try:
        app()
    except TransduceError as error:
        if error.is_told:  # the first rank says it
            sys.exit(error.exit_code)
        _end(str(error), error.exit_code)
    except OSError as error:
        _end(
            f"{error.filename}: {error.strerror}" if error.filename else str(error),
            StorageError.exit_code,
        )


def _open_streams() -> None:
    """A standard stream that was closed (`>&-`) becomes an empty one: else the next file opened would take its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # open as long as we are


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:
    raise StoppedError("interrupted", number)


class _Unheard:
    """Standard error whose reader may go away, for instance a terminal that is closed: what is said then is lost, and no more."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._file.write(text)
            self._file.flush()
        return len(text)

    def flush(self) -> None:
        pass  # nothing waits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _ignore(name: str) -> None:
    """Ignore a signal, where there is such a one.

    SIGPIPE: where other processes work for us, one that is gone is an error that is reported, not our silent end.
    SIGHUP: a training goes on when its terminal is closed, or when nobody reads any more what it says.
    """
    if hasattr(signal, name):
        signal.signal(getattr(signal, name), signal.SIG_IGN)


def _end(message: str, exit_code: int) -> NoReturn:
    print(f"transduce: {message}", file=sys.stderr)
    sys.exit(exit_code)


def _print_version(wanted: bool) -> None:
    if wanted:
        from transduce import __version__

        print(f"transduce {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    lm: Annotated[
        bool, Option("--lm", help="a language model instead: it learns to write Italian")
    ] = False,
    keep: Annotated[Path | None, Option(help="keep the run in this folder")] = None,
) -> None:
    """Train English -> Italian here and now (a minute or two), score it, show its time steps."""
    import tempfile

    _ignore("SIGPIPE")
    from transduce.training.demo import run_demo, run_text_demo

    with tempfile.TemporaryDirectory() as temporary:
        run = keep or Path(temporary) / "demo"
        (run_text_demo if lm else run_demo)(run, Console(soft_wrap=True), _stderr())


@app.command()
def train(
    run: Annotated[
        Path,
        Argument(
            help="folder for the run: settings, metrics, checkpoints, model", show_default=False
        ),
    ],
    source: Sources = None,
    target: Targets = None,
    pairs: Pairs = None,
    fields: Fields = None,
    text: Annotated[Texts, File(help="for a language model: a text; repeat it for more")] = None,
    valid_source: Annotated[Texts, File(help="validation set; left out, split off")] = None,
    valid_target: Annotated[Texts, File(help="its translation")] = None,
    valid_pairs: Annotated[Texts, File(help="validation set with both sides in one file")] = None,
    languages: Languages = None,
    preset: Preset = None,
    config: Settings = None,
    assignments: Assignments = None,
    start: Annotated[
        Path | None,
        Option("--from", help="a model to train further: its weights, shape and vocabulary"),
    ] = None,
    processes: Annotated[
        int,
        Option(min=1, max=1024, help="that train together, each on batches and cores of its own"),
    ] = 1,
    verify_resume: Annotated[
        bool,
        Option(
            "--verify-resume",
            help="only prove that this training, killed, ends in the same weights",
        ),
    ] = False,
) -> None:
    """Train a translator from two text files, or a language model from one. Everything you leave out is chosen from the corpus.

    transduce train runs/en-it --source train.en --target train.it

    transduce train runs/lm --text corpus.txt

    Files may be packed (.gz, .xz, .zst), several (repeat the option, or quote a pattern like 'part-*.en'), or - for standard input.
    """
    if bool(text) == bool(source or target or pairs) or (
        text and (valid_source or valid_target or valid_pairs)
    ):
        raise UsageError(
            "give --source and --target (or --pairs) for a translator, or --text for a language model"
        )
    if text and languages is not None:
        raise UsageError("--languages is for sentence pairs: a text has no two sides")
    both = _fields(fields, pairs or valid_pairs)
    files = _files(source, target, pairs, text, valid_source, valid_target, valid_pairs)
    source, target, pairs, text, valid_source, valid_target, valid_pairs = files
    _ignore("SIGPIPE")
    _ignore("SIGHUP")
    settings = _layers(config, assignments, languages)
    if (verify_resume or processes > 1) and any("-" in each for each in files):
        raise UsageError(
            "standard input can be read only once: with --processes or --verify-resume give files"
        )
    if verify_resume:
        from transduce.training.verify_resume import verify_resume as verify

        arguments = [argument for argument in sys.argv[2:] if argument != "--verify-resume"]
        verify(run, arguments, _say())
        return
    if processes > 1:
        _train_together(processes)
    if text:
        from transduce.training.run_text import train_text

        train_text(run, text, preset, settings, _stderr(), start=start)
        return
    from transduce.training.run import train as train_run

    sides = source, target, valid_source, valid_target
    train_run(
        run,
        *sides,
        preset,
        settings,
        _stderr(),
        pairs=pairs,
        valid_pairs=valid_pairs,
        fields=both,
        start=start,
    )


def _train_together(processes: int) -> None:
    """Start the ranks and end with them; in a rank, go on."""
    from transduce.training.launch import PARENT, end_with_parent, launch

    if PARENT in os.environ:
        end_with_parent()
    elif "WORLD_SIZE" in os.environ:
        raise UsageError("torchrun has started this process already: leave out --processes")
    else:
        raise typer.Exit(launch(sys.argv[1:], processes, _say()))


@app.command()
def translate(
    files: Annotated[Texts, Argument(hidden=True)] = None,
    model: Annotated[
        list[Path] | None,
        Option(
            "-m",
            "--model",
            help="model or run folder; left out, the built-in en-it model; repeat it for an ensemble",
        ),
    ] = None,
    beam: Beam = None,
    alpha: Alpha = None,
    length_penalty: LengthPenalty = None,
    max_length: Annotated[
        int | None, Option(help="most pieces of a translation; left out, input + 50")
    ] = None,
    n_best: Annotated[
        int, Option(min=1, help="so many translations of each line, best first, in Moses' form")
    ] = 1,
    prefix: Annotated[str, Option(help="how each translation begins")] = "",
    alternatives: Annotated[
        int,
        Option(
            min=0,
            max=128,
            help="so many that differ in the piece after --prefix, and how each goes on",
        ),
    ] = 0,
    no_repeat_ngram: Annotated[
        int, Option(min=0, help="do not write the same n pieces in a row twice; 0: they may repeat")
    ] = 0,
    glossary: Annotated[
        Path | None,
        Option(
            help="terms that are met: phrase, tab, translation, tab, another; a phrase alone stays as it is"
        ),
    ] = None,
    protect: Annotated[
        bool,
        Option("--protect", help="numbers, web and mail addresses, {placeholders} and %s survive"),
    ] = False,
    forbid: Annotated[Path | None, Option(help="words that are never written, one a line")] = None,
    sample: Annotated[
        bool, Option("--sample", help="draw translations instead of searching the best")
    ] = False,
    temperature: Annotated[
        float | None, Option(help="with --sample: below 1 sharper, above 1 wilder")
    ] = None,
    top_k: Annotated[int | None, Option(help="with --sample: only the k likeliest pieces")] = None,
    top_p: Annotated[
        float | None, Option(help="with --sample: only the likeliest pieces that reach p")
    ] = None,
    seed: Annotated[
        int | None, Option(help="with --sample: same seed, same draws; 1 if not said")
    ] = None,
    engine: Annotated[
        Engine, Option(help="auto takes ctranslate2 where it is installed and can do what is asked")
    ] = "auto",
    precision: Annotated[
        Precision, Option(help="of the weights; bf16 runs on torch, int8 on ctranslate2")
    ] = "float32",
    threads: Annotated[int | None, Option(min=1, max=1024, help="left out, one a core")] = None,
    report: Annotated[Path | None, Option(help="notes and flags of each line, as JSONL")] = None,
    alignments: Annotated[
        Path | None, Option(help="word alignments, a line each, in Pharaoh's form")
    ] = None,
    strict: Annotated[bool, Option("--strict", help="exit with 65 if a line is flagged")] = False,
    as_json: Json = False,
) -> None:
    """Translate standard input, line by line: one line out for each line in, blank stays blank, whatever the line is.

    A line that is too long is split, translated and joined. What is doubtful is said on stderr, and line by line in --report:
    notes and flags, which docs/translating.md explains. With --json each line is an object with all that is known of it.

    echo "I love you very much" | transduce translate
    """
    if files:
        raise UsageError(f"translate reads standard input: transduce translate < {files[0]}")
    how = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    given = {name: value for name, value in how.items() if value is not None}
    if given and not sample:
        raise UsageError(f"--{next(iter(given)).replace('_', '-')} is for drawing: add --sample")
    if sample and any(option is not None for option in (beam, alpha, length_penalty)):
        raise UsageError(
            "--sample draws and does not search: leave out --beam, --alpha and --length-penalty"
        )
    from transduce.cli.translate import run_filter, say
    from transduce.decode.load import load_translator
    from transduce.decode.options import Sampling, TranslateOptions
    from transduce.text.terms import read_glossary, read_phrases

    translator = load_translator(
        *model or (), engine=engine, precision=precision, n_threads=threads, log=say
    )
    asked = TranslateOptions(
        translator.settings(beam, alpha, length_penalty, max_length),
        n_best=n_best,
        alternatives=alternatives,
        sampling=Sampling(**given) if sample else None,  # type: ignore[arg-type]  # each is of its own type
        no_repeat=no_repeat_ngram,
        forbid=tuple(read_phrases(forbid)) if forbid is not None else (),
        prefix=prefix,
        glossary=read_glossary(glossary) if glossary is not None else None,
        protect=protect,
    )
    run_filter(
        translator, asked, report, alignments, (glossary, forbid), as_json=as_json, strict=strict
    )


@app.command()
def inspect(
    text: Annotated[str, Argument(help="one text to translate, or for a language model to read")],
    model: Model = None,
    view: Annotated[
        Texts,
        Option(
            help="tokens, positions, heads, scores, alignment, probs, beam, steps, layers or why; repeat it for more"
        ),
    ] = None,
    layer: Annotated[int | None, Option(help="from 0")] = None,
    head: Annotated[int | None, Option(help="from 0")] = None,
    step: Annotated[int | None, Option(help="time step, from 1")] = None,
    kind: Annotated[
        Kind | None, Option(help="of attention: the decoder's self or cross, or enc")
    ] = None,
    beam: Beam = None,
    edit: Annotated[
        Texts,
        Option(help="what if, as JSON: see docs/inside.md; repeat it for more", metavar="JSON"),
    ] = None,
    html: Annotated[Path | None, File(help="write the page, one file that needs nothing")] = None,
    with_model: Annotated[
        bool,
        Option("--with-model", help="with --html: put the model inside, for other texts and edits"),
    ] = False,
    svg: Annotated[Path | None, File(help="write the views as a picture")] = None,
    as_json: Json = False,
) -> None:
    """Look inside a model while it translates: every number it computes, in the terminal or as a page.

    transduce inspect "I love you very much" --view heads --view probs --step 3

    transduce inspect "I love you very much" --html out.html
    """
    if with_model and html is None:
        raise UsageError("--with-model puts the model into the page: add --html FILE")
    if svg is not None and as_json:
        raise UsageError("--svg draws and --json prints: give one of them")
    from transduce.cli.inspect import inspect as look
    from transduce.inspection.views import Selection

    selection = Selection(layer, head, step, kind)
    look(model, text, view or (), selection, beam, edit or (), html, with_model, svg, as_json)


@app.command()
def claims(
    names: Annotated[
        list[str] | None, Argument(help="claims to test; left out, they are listed")
    ] = None,
    model: Model = None,
    fast: Annotated[bool, Option("--fast", help="those that take about a minute together")] = False,
    every: Annotated[bool, Option("--all", help="every one: about a quarter of an hour")] = False,
    html: Annotated[Path | None, File(help="write a page with all plots")] = None,
    as_json: Json = False,
) -> None:
    """Test what the paper and the texts about it claim: experiments with a control, numbers and a verdict.

    transduce claims

    transduce claims causal_mask diagonal

    transduce claims --fast -m runs/en-it --html out.html
    """
    from transduce.cli.claims import chosen, list_claims, run_claims

    wanted = chosen(names or (), fast, every)
    if wanted:
        run_claims(model, wanted, html, as_json)
    elif html is None:
        list_claims(as_json)
    else:
        raise UsageError("--html shows results: give names of claims, --fast or --all")


@app.command()
def serve(
    model: Model = None,
    host: Annotated[str, Option(help="address to listen at")] = ("127.0.0.1"),
    port: Annotated[int, Option(min=0, max=65535, help="0 takes a free one")] = 8000,
    open_page: Annotated[bool, Option("--open", help="open the page in the browser")] = False,
) -> None:
    """Look inside a model in the browser: a page, and an API for its numbers (docs/inside.md).

    transduce serve -m runs/en-it --open
    """
    from transduce.service.inspector import serve as run_server

    run_server(model, host, port, open_page, _say())


@app.command()
def score(
    source: Annotated[Path, Option(help="text that was translated, one sentence a line")],
    target: Annotated[Path, Option(help="its translations, line by line")],
    model: Model = None,
    alpha: Alpha = None,
    length_penalty: LengthPenalty = None,
    alignments: Annotated[
        Path | None, Option(help="word alignments, a line each, in Pharaoh's form")
    ] = None,
    as_json: Json = False,
) -> None:
    """Score given translations: the numbers that `translate` gives its own. One number a line, higher is better.

    transduce score -m runs/en-it --source test.en --target out.it
    """
    from transduce.cli.translate import score_files

    score_files(model, source, target, alpha, length_penalty, alignments, as_json)


@app.command()
def generate(
    prompt: Annotated[str, Argument(help="the text to go on from; empty starts from [SOS]")] = "",
    model: Annotated[
        Path | None, Option("-m", "--model", help="a model trained with train --text")
    ] = None,
    tokens: Annotated[int, Option(min=1, help="most pieces to write")] = 200,
    temperature: Annotated[
        float, Option(help="0 takes the best, below 1 is sharper, above 1 wilder")
    ] = 0.8,
    top_k: Annotated[int, Option(help="only the k likeliest pieces; 0 is all")] = 0,
    top_p: Annotated[float, Option(help="only the likeliest pieces that reach p")] = 1.0,
    seed: Annotated[int, Option(help="same seed, same text")] = 1,
    n: Annotated[int, Option("--n", min=1, max=1000, help="texts to write")] = 1,
    stop: Annotated[Texts, Option(help="end before this string; repeat it for more")] = None,
    stream: Annotated[bool, Option("--stream", help="print each piece as it is written")] = False,
    as_json: Json = False,
) -> None:
    """Let a language model go on from a prompt.

    transduce generate -m runs/lm "To be" --tokens 100
    """
    if model is None:
        raise UsageError(
            "generate needs a language model: -m RUN, made by transduce train RUN --text corpus.txt"
        )
    if stream and (as_json or n > 1):
        raise UsageError("--stream prints one text as it is written: leave out --json and --n")
    from transduce.cli.translate import say
    from transduce.decode.load import load_generator
    from transduce.decode.options import Sampling

    sampling = Sampling(temperature, top_k, top_p, seed)
    generator = load_generator(model)
    n_read = len(generator.context(prompt))
    if n_read > generator.window:
        say(f"the prompt has {n_read} pieces, the window {generator.window}: only its end is read")
    if stream:
        print(prompt, end="", flush=True)
        for part in generator.stream(prompt, tokens, sampling, stop or ()):
            print(part, end="", flush=True)
        print()
        return
    for generation in generator.generate(prompt, tokens, sampling, n, stop or ()):
        print(
            json.dumps(asdict(generation), ensure_ascii=False)
            if as_json
            else generation.prompt + generation.text
        )


@app.command()
def evaluate(
    reference: References = None,
    source: Annotated[Path | None, Option(help="text to translate with the model")] = None,
    hypothesis: Annotated[
        Path | None, Option(help="translations made elsewhere, instead of --source")
    ] = None,
    text: Annotated[Path | None, Option(help="for a language model: the text to foretell")] = None,
    model: Model = None,
    tokenize: Tokenize = "13a",
    beam: Beam = None,
    alpha: Alpha = None,
    length_penalty: LengthPenalty = None,
    as_json: Json = False,
) -> None:
    """Score translations: BLEU, chrF and TER with their signatures, exact match; of a model also the loss of the references.

    transduce evaluate -m runs/en-it --source test.en --reference test.it

    transduce evaluate --hypothesis out.it --reference test.it

    With --text a language model is scored by its loss on a text.
    """
    search = (beam, alpha, length_penalty)
    if text is not None:
        if (
            model is None
            or reference
            or any(option is not None for option in (source, hypothesis, *search))
        ):
            raise UsageError("a language model is scored by -m MODEL --text FILE and nothing else")
        from transduce.evaluation.likelihood import score_text
        from transduce.evaluation.test_sets import print_scores

        scores, fields = score_text(model, text)
        print_scores(scores, as_json, fields)
        return
    if not reference:
        raise UsageError(
            "give --reference, the right translations (or --text, for a language model)"
        )
    if (source is None) == (hypothesis is None):
        raise UsageError(
            "give either --source (to translate with the model) or --hypothesis (translations to score)"
        )
    if hypothesis is not None and any(option is not None for option in (model, *search)):
        raise UsageError(
            "--hypothesis is scored as it is: leave out --model, --beam, --alpha and --length-penalty"
        )
    from transduce.evaluation.test_sets import score_hypothesis, score_model

    if hypothesis is not None:
        score_hypothesis(hypothesis, reference, tokenize, as_json)
    elif source is not None:
        score_model(model, source, reference, tokenize, search, as_json)


@app.command()
def compare(
    system: Annotated[
        Texts,
        Option(
            help="its translations, or a model folder; repeat it, the baseline first",
            metavar="NAME=FILE",
        ),
    ] = None,
    reference: References = None,
    source: Annotated[
        Path | None, Option(help="the text that was translated, or shall be by a model")
    ] = None,
    train_source: Annotated[
        Path | None,
        Option(help="text the systems were trained on: scores by rare words and by overlap"),
    ] = None,
    train_target: Annotated[
        Path | None, Option(help="its translation: the same for the reference")
    ] = None,
    rare: Annotated[
        int, Option(min=0, help="a word is rare if training has it at most so often")
    ] = 5,
    tokenize: Tokenize = "13a",
    html: Annotated[Path | None, File(help="write a page with the sentences side by side")] = None,
    as_json: Json = False,
) -> None:
    """Compare systems on one test set: scores, and by two paired tests whether the differences are more than chance.

    transduce compare --reference test.it --system first=out1.it --system second=out2.it --html page.html
    """
    if not reference:
        raise UsageError("give --reference, the right translations")
    from transduce.evaluation.comparison import compare_systems

    sides = {"source": train_source, "reference": train_target}
    training = {side: path for side, path in sides.items() if path is not None}
    compare_systems(
        system or (), reference, source, training, rare, tokenize, html, as_json, _stderr()
    )


@app.command()
def doctor(
    source: Sources = None,
    target: Targets = None,
    pairs: Pairs = None,
    fields: Fields = None,
    valid_source: Annotated[
        Texts, File(help="held-out set that training must not contain; repeat it")
    ] = None,
    valid_target: Annotated[Texts, File(help="its translation")] = None,
    valid_pairs: Annotated[Texts, File(help="held-out set with both sides in one file")] = None,
    languages: Languages = None,
    write: Annotated[
        Path | None,
        Option(help="write a cleaned copy and dropped.jsonl into this new folder", metavar="DIR"),
    ] = None,
    html: Annotated[Path | None, File(help="write the report as one page")] = None,
    as_json: Json = False,
) -> None:
    """Find what is wrong with a corpus before a model learns it; the input is never changed.

    transduce doctor --source train.en --target train.de --html report.html
    """
    from transduce.cli.doctor import run_doctor
    from transduce.text.corpus import open_pairs

    both = _fields(fields, pairs or valid_pairs)
    files = _files(source, target, pairs, valid_source, valid_target, valid_pairs)
    source, target, pairs, valid_source, valid_target, valid_pairs = files
    corpus = open_pairs(source, target, pairs, both)
    held_out = [open_pairs(valid_source, valid_target)] if valid_source or valid_target else []
    held_out += [open_pairs(pairs=valid_pairs, fields=both)] if valid_pairs else []
    names = _two(languages, "--languages") if languages is not None else None
    run_doctor(corpus, held_out, names, write, html, as_json, _stderr())


@app.command()
def plan(
    source: Sources = None,
    target: Targets = None,
    pairs: Pairs = None,
    fields: Fields = None,
    languages: Languages = None,
    preset: Preset = None,
    config: Settings = None,
    assignments: Assignments = None,
    seconds: Annotated[float, Option(min=1, help="how long to measure")] = 15.0,
    as_json: Json = False,
) -> None:
    """Show what `train` would choose for a corpus and why, and measure what it costs on this machine. Nothing is kept.

    transduce plan --source train.en --target train.de
    """
    from transduce.text.corpus import open_pairs
    from transduce.training.plan import make_plan

    both = _fields(fields, pairs)
    source, target, pairs = _files(source, target, pairs)
    _ignore("SIGPIPE")
    corpus = open_pairs(source, target, pairs, both)
    found = make_plan(corpus, preset, _layers(config, assignments, languages), seconds, _say())
    print(json.dumps(asdict(found)) if as_json else found.as_text())


@app.command()
def info(
    model: Model = None,
    preset: Annotated[str | None, Option(help="a named shape instead of a model")] = None,
    vocab: Annotated[
        int | None, Option(min=1, help="with --preset: pieces; 37000 (section 5.1) if not said")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the shape of a model and its parameters by part.

    transduce info --preset base --vocab 37000
    """
    from transduce.inspection.summary import PAPER_PIECES, describe_model, describe_preset

    if model is not None and preset is not None:
        raise UsageError("give either -m MODEL or --preset NAME, not both")
    if vocab is not None and preset is None:
        raise UsageError("--vocab is for a preset: a trained model has its own vocabulary")
    description = (
        describe_preset(preset, vocab or PAPER_PIECES)
        if preset is not None
        else describe_model(model)
    )
    print(json.dumps(description.as_dict()) if as_json else description.as_text())


def _layers(
    config: Path | None, assignments: list[str] | None, languages: str | None
) -> list[Layer]:
    """The settings of a command line, the later ones winning."""
    settings: list[Layer] = [read_toml(config)] if config else []
    settings += [parse_assignment(assignment) for assignment in assignments or []]
    if languages is not None:
        settings.append({"text": {"languages": _two(languages, "--languages")}})
    return settings


def _files(*options: Texts) -> list[list[str]]:
    """The files of each option; none, where it is left out. Standard input can serve one only."""
    files = [each or [] for each in options]
    check_stdin_used_once(*files)
    return files


def _fields(fields: str | None, tables: Texts) -> tuple[str, str] | None:
    """`--fields` names fields of tables; without a table it would do nothing."""
    if fields is not None and not tables:
        raise UsageError("--fields names the fields of a .jsonl file: give that by --pairs")
    return _two(fields, "--fields") if fields is not None else None


def _two(text: str, option: str) -> tuple[str, str]:
    """`en,de` as two names."""
    first, comma, second = (part.strip() for part in text.partition(","))
    if not (first and comma and second) or "," in second:
        raise UsageError(
            f"{option} {text!r}: wanted two names with a comma between, for example en,de"
        )
    return first, second


def _stderr() -> Console:
    return Console(stderr=True, soft_wrap=True)


def _say() -> Callable[[str], None]:
    """Lines for people, as they are."""
    return partial(_stderr().print, highlight=False, markup=False)
