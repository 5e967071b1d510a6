"""How this process shares the interpreter: few garbage collections while it loads, short ones and short turns while it serves.

Modules live until exit, so a collection would find nothing. To look through them again and again, as Python does by itself, is a
sixth of the gateway's start. While it serves, the event loop waits for whatever holds the interpreter: a collection of all that lives,
which takes 50 ms where a container has 50,000 files, and the turns of threads that look through files.
"""

import gc
import sys

_RARELY = 200_000  # new objects between two looks; usually 700
_YOUNG, _MIDDLE, _ = gc.get_threshold()
_WHOLE = (
    500  # collections of the middle generation, of some 7,000 new objects each, until one of everything; usually 10
)
_TURN = 0.001  # seconds that a thread keeps the interpreter while another one wants it; usually 5 ms


def begin_loading() -> None:
    """From here to `end_loading` garbage in cycles is looked for rarely. A command that is over soon needs no end."""
    gc.set_threshold(_RARELY)


def end_loading() -> None:
    """Garbage is looked for among what is made from now on: in new objects as usual, in all of them rarely. Threads take short turns."""
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _WHOLE)
    sys.setswitchinterval(_TURN)
