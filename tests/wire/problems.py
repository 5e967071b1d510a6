"""How a check of this folder fails: with every problem that it found, one line each."""

from collections.abc import Sequence

SHOWN = 12


def demand(problems: Sequence[str], what: str) -> None:
    """Raises AssertionError that lists the problems, when there are any; the first SHOWN of them."""
    if not problems:
        return
    shown = [f"  {problem}" for problem in problems[:SHOWN]]
    more = [f"  … and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
    raise AssertionError("\n".join([f"{what}: {len(problems)} problem(s)", *shown, *more]))
