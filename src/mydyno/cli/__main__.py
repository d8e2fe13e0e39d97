"""`python -m mydyno.cli` is the program."""

from mydyno.cli import main

main()
