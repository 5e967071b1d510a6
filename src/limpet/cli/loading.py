"""Imports with few garbage collections: modules live until exit, so a collection would find nothing.

To look through it again and again, as Python does by itself, is a sixth of the gateway's start.
"""

import gc

_USUAL = gc.get_threshold()
_RARELY = 200_000  # new objects between two looks; usually 700


def begin_loading() -> None:
    """From here to `end_loading` garbage in cycles is looked for rarely. A command that is over soon needs no end."""
    gc.set_threshold(_RARELY)


def end_loading() -> None:
    """Garbage is looked for as usual, among what is made from now on."""
    gc.freeze()
    gc.set_threshold(*_USUAL)
