"""`python -m limpet` is `limpet`."""

from limpet.cli import main

if __name__ == "__main__":
    main()
