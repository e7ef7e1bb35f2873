"""`transduce translate`: standard input to standard output, exactly one line for each line."""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

from typer import Argument, Option

from transduce.cli.arguments import (
    AlignmentsFile,
    Alpha,
    BeamSize,
    FileOption,
    JsonOutput,
    LengthPenalty,
)
from transduce.cli.output import (
    FORMATS,
    OutputFormat,
    check_outputs,
    check_stdin_is_not_stdout,
    note,
    overwrite,
    warn,
)
from transduce.errors import DataError, UsageError
from transduce.outputs import open_text_output

if TYPE_CHECKING:
    from transduce.decode.options import TranslateOptions
    from transduce.decode.translation import Translation
    from transduce.decode.translator import Translator
    from transduce.text.terms import Glossary

MAX_SHOWN = 10  # lines whose flags and notes are shown on stderr; --report has all of them
PROGRESS_INTERVAL = 1.0  # seconds


def translate(
    files: Annotated[list[str] | None, Argument(hidden=True)] = None,
    model: Annotated[
        list[Path] | None,
        Option(
            "-m",
            "--model",
            metavar="MODEL",
            help="Model folder or run folder; repeat for an ensemble. "
            "Default: the built-in en-it model.",
        ),
    ] = None,
    beam: BeamSize = None,
    alpha: Alpha = None,
    length_penalty: LengthPenalty = None,
    max_length: Annotated[
        int | None,
        Option(
            min=1,
            max=1 << 20,
            help="Maximum length of a translation in tokens. Default: source length + 50.",
        ),
    ] = None,
    n_best: Annotated[
        int, Option(min=1, help="Write the n best translations of each line (Moses format).")
    ] = 1,
    prefix: Annotated[str, Option(help="Text that each translation must begin with.")] = "",
    alternatives: Annotated[
        int,
        Option(
            min=0,
            max=128,
            help="Write n translations that differ in the token after --prefix (Moses format).",
        ),
    ] = 0,
    no_repeat_ngram: Annotated[
        int, Option(min=0, help="Never write the same n tokens in a row twice; 0 allows it.")
    ] = 0,
    glossary: Annotated[
        Path | None,
        FileOption(
            help="Required terms, one per line: phrase TAB translation [TAB alternative], or a "
            ".csv file. A phrase alone is copied unchanged."
        ),
    ] = None,
    protect: Annotated[
        bool,
        Option(
            "--protect",
            help="Also copy words with digits unchanged; links and placeholders always are.",
        ),
    ] = False,
    no_split: Annotated[
        bool,
        Option("--no-split", help="Do not split lines into sentences."),
    ] = False,
    check: Annotated[
        bool,
        Option("--check", help="Score each translation again, to find where content is missing."),
    ] = False,
    forbid: Annotated[
        Path | None, FileOption(help="Words that are never written, one per line.")
    ] = None,
    sample: Annotated[
        bool, Option("--sample", help="Sample translations instead of searching for the best.")
    ] = False,
    temperature: Annotated[
        float | None, Option(help="With --sample: higher values vary more. Default: 1.")
    ] = None,
    top_k: Annotated[
        int | None, Option(help="With --sample: only the k most probable tokens.")
    ] = None,
    top_p: Annotated[
        float | None,
        Option(help="With --sample: only the smallest set of tokens with total probability p."),
    ] = None,
    seed: Annotated[int | None, Option(help="With --sample: random seed. Default: 1.")] = None,
    engine: Annotated[
        str,
        Option(
            metavar="ENGINE",
            help="torch, ctranslate2, or auto: ctranslate2 if it is installed and supports the "
            "options, else torch.",
        ),
    ] = "auto",
    precision: Annotated[
        Literal["float32", "bf16", "int8"],
        Option(help="Precision of the weights; bf16 needs torch, int8 needs ctranslate2."),
    ] = "float32",
    threads: Annotated[
        int | None, Option(min=1, max=1024, help="Number of threads. Default: one per core.")
    ] = None,
    report: Annotated[
        Path | None, FileOption(help="Write the quality flags and notes of each line as JSON.")
    ] = None,
    alignments: AlignmentsFile = None,
    strict: Annotated[
        bool, Option("--strict", help="Exit with code 65 if any line is flagged.")
    ] = False,
    as_json: JsonOutput = False,
) -> None:
    """Translate standard input line by line: one line out for each line in.

    A line of several sentences is translated sentence by sentence. Links, placeholders, emojis
    and code are kept. A blank line stays blank. Doubtful translations are flagged on stderr and in
    --report; docs/translating.md explains the flags.

    \b
    Examples:
      echo "I love you very much" | transduce translate
      transduce translate -m runs/en-de < in.en > out.de
      transduce translate --json --report flags.jsonl < in.en
    """
    if files:
        raise UsageError(f"translate reads standard input; use: transduce translate < {files[0]}")
    sampling_options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    given = {name: value for name, value in sampling_options.items() if value is not None}
    if given and not sample:
        option = next(iter(given)).replace("_", "-")
        raise UsageError(f"--{option} is for sampling; add --sample")
    if sample and any(option is not None for option in (beam, alpha, length_penalty)):
        raise UsageError("--sample does not search; remove --beam, --alpha and --length-penalty")
    check_outputs((report, alignments), (glossary, forbid), model or ())
    check_stdin_is_not_stdout()
    from transduce.decode.load import load_translator
    from transduce.decode.options import Sampling, TranslateOptions
    from transduce.text.terms import read_glossary, read_phrases

    translator = load_translator(
        *model or (), engine=engine, precision=precision, n_threads=threads, log=note
    )
    sampling = Sampling(**given) if sample else None  # type: ignore[arg-type]  # types match
    options = TranslateOptions(
        translator.settings(beam, alpha, length_penalty, max_length),
        n_best=n_best,
        alternatives=alternatives,
        sampling=sampling,
        no_repeat=no_repeat_ngram,
        forbid=tuple(read_phrases(forbid)) if forbid is not None else (),
        prefix=prefix,
        glossary=read_glossary(glossary) if glossary is not None else None,
        protect=protect,
        check=check,
        split=not no_split,
    )
    if as_json:
        stdout_format = FORMATS["json"]
    elif n_best > 1 or alternatives:
        stdout_format = FORMATS["nbest"]
    else:
        stdout_format = FORMATS["text"]
    counts = QualityCounts()
    with ExitStack() as stack:
        outputs: list[tuple[OutputFormat, TextIO]] = []
        for name, path in (("report", report), ("alignment", alignments)):
            if path is not None:
                outputs.append((FORMATS[name], stack.enter_context(open_text_output(path))))
        outputs.append((stdout_format, sys.stdout))
        translate_stdin(translator, options, outputs, counts)
    note(counts.summary(has_report=report is not None))
    if strict and counts.n_flagged:
        raise DataError(
            f"{counts.n_flagged:,} of {counts.n_lines:,} lines are flagged; "
            "check these lines, or omit --strict"
        )


def translate_stdin(
    translator: "Translator",
    options: "TranslateOptions",
    outputs: Sequence[tuple[OutputFormat, TextIO]],
    counts: "QualityCounts",
) -> None:
    """Translate standard input; write each window of lines to all outputs when it is ready."""
    from transduce.decode.stream import translate_stream
    from transduce.text.line_stream import LineReader

    chosen, reason = translator.engine(options)
    note(f"engine: {chosen}" if reason is None else f"engine: {chosen} ({reason})")
    options = replace(options, details=any(form.needs_details for form, _ in outputs))
    has_matched = options.glossary is None
    for translations in translate_stream(translator, options, LineReader(sys.stdin.buffer, warn)):
        first = counts.n_lines + 1
        for translation in translations:
            counts.add(translation)
            if not has_matched and options.glossary is not None:
                has_matched = has_term(options.glossary, translation.source)
        for form, file in outputs:
            for number, translation in enumerate(translations, start=first):
                file.writelines(f"{line}\n" for line in form.lines(number, translation))
            file.flush()
        counts.show_progress()
    if counts.n_lines and not has_matched:
        warn("no glossary entry matches any line; check the glossary's language and spelling")


def has_term(glossary: "Glossary", text: str) -> bool:
    """Return whether a glossary has a term of a text, outside of its links and the like."""
    from transduce.text.protected import find_single_parts

    return next(glossary.find(text, find_single_parts(text)), None) is not None


class QualityCounts:
    """Counts quality flags and notes, and shows those of the first lines on stderr."""

    def __init__(self) -> None:
        self.n_lines = 0
        self.n_flagged = 0
        self._n_shown = 0
        self._counts: Counter[str] = Counter()
        self._start = self._last_progress = time.monotonic()

    def add(self, translation: "Translation") -> None:
        """Count the flags and notes of the next line, and show them."""
        self.n_lines += 1
        if translation.flags:
            self.n_flagged += 1
        self._counts.update((*translation.flags, *translation.notes))
        shown = [(warn, _explain(kind, translation)) for kind in translation.flags]
        shown += [(note, _explain(kind, translation)) for kind in translation.notes]
        messages = [(show, message) for show, message in shown if message is not None]
        if messages:
            self._n_shown += 1
        if self._n_shown <= MAX_SHOWN:
            for show, message in messages:
                show(f"line {self.n_lines}: {message}")

    def show_progress(self) -> None:
        """Show the speed once a second if stderr is a terminal and stdout is not."""
        if not sys.stderr.isatty() or sys.stdout.isatty():
            return
        now = time.monotonic()
        if now - self._last_progress > PROGRESS_INTERVAL:
            self._last_progress = now
            speed = self.n_lines / (now - self._start)
            overwrite(f"{self.n_lines:,} lines, {speed:,.0f} per second")

    def summary(self, has_report: bool) -> str:
        """Return the counts in one line."""
        unit = "line" if self.n_lines == 1 else "lines"
        text = f"{self.n_lines:,} {unit}, {self.n_flagged:,} flagged"
        if self._counts:
            text += f" ({', '.join(f'{kind} {n:,}' for kind, n in sorted(self._counts.items()))})"
        if self._n_shown > MAX_SHOWN and not has_report:
            text += "; --report FILE lists every line"
        return text


def _explain(kind: str, translation: "Translation") -> str | None:
    from transduce.decode.quality import explain_flag

    return explain_flag(
        kind,
        unknown=translation.unknown,
        missing=translation.missing,
        unseen=translation.unseen,
    )
