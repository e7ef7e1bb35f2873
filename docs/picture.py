"""Make docs/demo.svg, the picture in the README, from a real run: `make picture`."""

import io
import re
import tempfile
from pathlib import Path

from rich.console import Console

from transduce.training.demo import run_demo


def main() -> None:
    """Run the demo in a recording terminal and save what it showed; the fonts are the reader's own, nothing is fetched."""
    console = Console(
        record=True, file=io.StringIO(), color_system="truecolor", width=118
    )  # not a terminal: no bar
    with tempfile.TemporaryDirectory() as temporary:
        run_demo(Path(temporary) / "demo", console, console)
    print(console.export_text(clear=False))  # the transcript of the README
    svg = console.export_svg(title="make demo")
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    Path(__file__).with_name("demo.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
