"""What of a script bash and a POSIX shell (dash, busybox) read so differently that a verdict on bash's reading says nothing. Pure.

Commands are judged as bash reads them. In a box without bash another shell runs them, and to it these are quotes, arguments and
subshells that hide other commands: `((a | rm x))` is arithmetic to bash, and runs rm in dash. Aliases count
in its scripts, too. So they are refused there, also in quotes.
"""

import re

from limpet.core.command import Argv, Script
from limpet.guard.policy.verdict import Denied

_UNLIKE = re.compile(r"""\$'|\$"|\$\[|\[\[|(?<!\$)\(\(|\bfunction\b|\bcoproc\b|\balias\b|<\(|>\(""")


def refuse_unlike_bash(what: Script | Argv) -> Denied | None:
    """The refusal of a script that holds one of these; None where both shells read it alike, or it is no script."""
    if isinstance(what, Argv) or (found := _UNLIKE.search(what.text)) is None:
        return None
    return Denied(
        rule="shell",
        reason=f"`{found[0]}` is for bash, and a POSIX shell that is to run it reads it otherwise than the policy does.",
        remedy="Write it for a POSIX shell: plain quotes, [ ] for tests, $(( )) for arithmetic, files for <( ).",
    )
