"""`transduce serve`: the inspector in the browser."""

from typing import Annotated

from typer import Option

from transduce.cli.arguments import ModelPath
from transduce.cli.output import log


def serve(
    model: ModelPath = None,
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8000,
    open_page: Annotated[bool, Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Inspect a model in the browser: a page, and an HTTP API for its numbers.

    The API is described in docs/inside.md.

    \b
    Example:
      transduce serve -m runs/en-it --open
    """
    from transduce.service.inspector import serve as run_server

    run_server(model, host, port, open_page, log)
