"""`python -m transduce` is the command `transduce`."""

from transduce.app.cli import main

main()
