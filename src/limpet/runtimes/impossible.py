"""Refuses commands and sandbox specs that no runtime, or not this one, could carry out, before anything runs. Pure."""

import math
import posixpath
import re

from limpet.core.command import Argv, Command, Script
from limpet.core.errors import BadCommand, BadEnvironmentName, BootFailed, OfferMissing
from limpet.core.ports import Offer, SandboxSpec, TimeToLive

# Linux refuses one argument, and one variable, longer than this (MAX_ARG_STRLEN, execve(2)).
LONGEST_ARGUMENT = 128 * 1024 - 1
# All arguments and variables together, each with its NUL and the pointer to it. The kernel takes a quarter of the stack limit, as a
# rule 2 MiB (execve(2)); the rest is for the sandbox's own variables. Where it takes less the command ends with 126. A script that
# is longer than one argument needs some room for its pieces.
LONGEST_COMMAND = (2 << 20) - (64 << 10)
LONGEST_SCRIPT = LONGEST_COMMAND - (192 << 10)
_BESIDE = 1 + 8

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME_OF_A_SANDBOX = re.compile(r"[A-Za-z0-9_-]{1,64}")


def refuse_impossible(command: Command, offers: frozenset[Offer], runtime: str, *, shell: str = "/bin/bash") -> None:
    """Raise BadCommand, BadEnvironmentName or OfferMissing if no program could receive `command` there. `shell` runs its script."""
    words = (command.what.text,) if isinstance(command.what, Script) else command.what.args
    if isinstance(command.what, Argv) and (not words or not words[0]):
        raise BadCommand("There is nothing to run: the list of arguments is empty or begins with an empty word.")
    if not _is_time(command.timeout):
        raise BadCommand(f"{command.timeout!r} is no time. Give the timeout in seconds, or None for no limit.")
    for name in command.env:
        if not _NAME.fullmatch(name):
            raise BadEnvironmentName(name)
    sizes = [_size(word) for word in words]
    sizes += [len(name) + 1 + _size(value) for name, value in command.env.items()]
    _size(command.cwd or "")
    # Longer than one argument, a script is given to the shell piece by piece.
    is_script = isinstance(command.what, Script) and posixpath.basename(shell) == "bash"
    most = LONGEST_SCRIPT if is_script and sizes[0] > LONGEST_ARGUMENT else LONGEST_COMMAND
    if max(sizes[is_script:], default=0) > LONGEST_ARGUMENT or sum(sizes) + _BESIDE * len(sizes) > most:
        raise BadCommand(
            f"The command is too long: one argument or variable may have {LONGEST_ARGUMENT} bytes, all together"
            f" {LONGEST_COMMAND}, a script {LONGEST_SCRIPT}, each with {_BESIDE} more. Write it to a file and run that."
        )
    for offer in _needed(command):
        if offer not in offers:
            raise OfferMissing(runtime, offer.value, [one.value for one in offers])


def _needed(command: Command) -> list[Offer]:
    needed = []
    if isinstance(command.what, Argv):
        needed.append(Offer.ARGV)
    if command.stdin is not None or command.keeps_stdin_open:
        needed.append(Offer.STDIN)
    if command.terminal is not None:
        needed.append(Offer.PTY)
    return needed


def _is_time(timeout: object) -> bool:
    """Callers without types give anything; what is no number would never be over."""
    return timeout is None or (
        isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and not math.isnan(timeout)
    )


def _size(text: str) -> int:
    """In bytes, as a program receives it."""
    if "\0" in text:
        raise BadCommand("The command holds a NUL character, which no program can receive. Leave it out.")
    try:
        return len(text.encode(errors="surrogateescape"))
    except UnicodeEncodeError:
        raise BadCommand("The command holds a lone surrogate, which is no character. Leave it out.") from None


def is_encodable(text: str) -> bool:
    """Whether there are bytes for it, as for arguments and file names of any bytes (`os.fsencode`)."""
    try:
        text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def refuse_impossible_spec(spec: SandboxSpec, offers: frozenset[Offer], runtime: str) -> None:
    """Raise OfferMissing for the first thing in `spec` that `offers` does not hold; BadEnvironmentName for a variable, and BootFailed for a
    sandbox, whose name cannot be one."""
    if not _NAME_OF_A_SANDBOX.fullmatch(spec.name):
        raise BootFailed(f"{spec.name!r} cannot be its name. Use 1 to 64 letters, digits, _ and -.")
    for name in spec.env:
        if not _NAME.fullmatch(name):
            raise BadEnvironmentName(name)
    needs = set(spec.needs)
    if isinstance(spec.lifetime, TimeToLive):
        needs.add(Offer.ATTACH)
    if any(getattr(spec.limits, name) is not None for name in spec.limits.__slots__):
        needs.add(Offer.LIMITS)
    if spec.directory is not None:
        needs.add(Offer.DIRECTORY)
    for offer in sorted(needs - offers, key=lambda one: one.value):
        raise OfferMissing(runtime, offer.value, [one.value for one in offers])
