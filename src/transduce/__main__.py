"""`python -m transduce` is the command `transduce`."""

from transduce.cli.main import main

main()
