"""`transduce generate`: write text with a language model."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from transduce.cli.arguments import JsonOutput
from transduce.cli.output import json_line, warn
from transduce.errors import UsageError


def generate(
    prompt: Annotated[
        str, Argument(metavar="PROMPT", help="Text to continue. Default: start a new text.")
    ] = "",
    model: Annotated[
        Path | None,
        Option("-m", "--model", metavar="MODEL", help="Model trained with train --text."),
    ] = None,
    tokens: Annotated[int, Option(min=1, help="Maximum number of tokens to write.")] = 200,
    temperature: Annotated[
        float, Option(help="0 takes the most probable token; higher values vary more.")
    ] = 0.8,
    top_k: Annotated[
        int, Option(help="Sample from the k most probable tokens only; 0 means all.")
    ] = 0,
    top_p: Annotated[
        float, Option(help="Sample from the smallest set of tokens with total probability p.")
    ] = 1.0,
    seed: Annotated[int, Option(help="Random seed; the same seed gives the same text.")] = 1,
    n: Annotated[int, Option("--n", min=1, max=1000, help="Number of texts.")] = 1,
    stop: Annotated[
        list[str] | None, Option(metavar="STRING", help="End before this string. Repeatable.")
    ] = None,
    stream: Annotated[
        bool, Option("--stream", help="Print each token as soon as it is written.")
    ] = False,
    as_json: JsonOutput = False,
) -> None:
    """Continue a prompt with a language model.

    \b
    Examples:
      transduce generate -m runs/lm "To be" --tokens 100
      transduce generate -m runs/lm --n 5 --temperature 1.0
    """
    if model is None:
        raise UsageError(
            "generate needs a language model; train one with "
            "'transduce train RUN --text FILE' and give it as -m RUN"
        )
    if stream and (as_json or n > 1):
        raise UsageError("--stream prints one text as it is written; remove --json and --n")
    from transduce.decode.load import load_generator
    from transduce.decode.options import Sampling

    sampling = Sampling(temperature, top_k, top_p, seed)
    generator = load_generator(model)
    n_read = len(generator.context(prompt))
    if n_read > generator.window:
        warn(
            f"the prompt has {n_read} tokens, the model reads {generator.window}; "
            "only the end of the prompt is used"
        )
    if stream:
        print(prompt, end="", flush=True)
        for part in generator.stream(prompt, tokens, sampling, stop or ()):
            print(part, end="", flush=True)
        print()
        return
    for generation in generator.generate(prompt, tokens, sampling, n, stop or ()):
        if as_json:
            print(json_line(asdict(generation)))
        else:
            print(generation.prompt + generation.text)
