"""A console for text from elsewhere."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from transduce.text.printable import printable_lines


class PrintableConsole(Console):
    """A rich console that prints every text through `printable_lines`.

    Colors and progress bars work as usual: only rich itself writes control sequences.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield what is printed for one object."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable_lines(segment.text), segment.style)
