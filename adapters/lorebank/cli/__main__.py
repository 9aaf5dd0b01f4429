"""`python -m lorebank.cli`."""

from lorebank.cli import main

main()
