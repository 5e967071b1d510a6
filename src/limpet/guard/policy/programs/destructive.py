"""What the platform refuses by default, and what needs approval first. Pure, over parsed command lines."""

import itertools
import posixpath
import re
from collections.abc import Iterator, Sequence

from limpet.guard.policy.bash.effects_found import Call
from limpet.guard.policy.bash.words import Field
from limpet.guard.policy.programs import find, git_commands
from limpet.guard.policy.programs.getopt import OptionSyntax, parse
from limpet.guard.policy.programs.wrappers import SHELLS

_STOPS = frozenset("shutdown reboot halt poweroff".split())
_SYSTEMCTL = frozenset("poweroff reboot halt kexec soft-reboot suspend hibernate emergency rescue".split())
_DEVICE = re.compile(
    r"/dev/(?:sd|hd|nvme|vd|xvd|mmcblk|disk|loop|mem$|kmem$|ram|dm-|md\d|mapper/|fd\d|nbd|sr\d|pmem|port$)"
)
_FETCHERS = frozenset("curl wget fetch aria2c http https lynx".split())
_SYSTEM = frozenset(
    "bin boot dev etc home lib lib32 lib64 libx32 media opt proc root run sbin srv sys usr var mnt Users".split()
)
_DATABASES = frozenset(
    "psql mysql mariadb sqlite3 sqlcmd sqlplus duckdb clickhouse-client cockroach mongosh bq".split()
)
_SQL = re.compile(
    r"\b(?:drop\s+(?:table|database|schema|view|index|role|user)|truncate\s+(?:table\s+)?\w|delete\s+from\s|dropDatabase\s*\()",
    re.IGNORECASE,
)
_RECURSIVE = OptionSyntax(
    flags="rRfivdI",
    long_flags=frozenset(
        "recursive force interactive verbose dir one-file-system no-preserve-root preserve-root".split()
    ),
)
_MODES = OptionSyntax(flags="RcfvhHLP",
    long_flags=frozenset("recursive changes silent quiet verbose no-preserve-root preserve-root".split()),
                long_valued=frozenset({"reference"}))  # fmt: skip


# --- what is refused -----------------------------------------------------------------------------------------------


def refused(call: Call, name: str) -> str | None:
    """Why the platform refuses the command; None where it doesn't. `name` is the plain name of the program."""
    words = call.fields[1:]
    texts = [word.text for word in words]
    if name in _STOPS or (name in ("init", "telinit") and texts[:1] in (["0"], ["6"])):
        return "it stops the machine"
    if name == "systemctl" and any(text in _SYSTEMCTL for text in texts):
        return "it stops the machine"
    if name == "mkfs" or name.startswith("mkfs.") or name in ("mke2fs", "mkswap", "wipefs", "blkdiscard"):
        return "it makes a new file system over what is there"
    if name == "rm":
        return _removes_root(call)
    if name in ("chmod", "chown", "chgrp"):
        return _opens_root(call, name)
    if name == "find":
        return _finds_root(call)
    if name == "dd" and any(text.startswith("of=") and _DEVICE.match(text[3:]) for text in texts):
        return "it writes over a device"
    if name in ("tee", "cp", "mv", "shred", "install", "truncate") and any(_DEVICE.match(text) for text in texts):
        return "it writes over a device"
    return _runs_what_it_fetched(call, name)


def opens_device(target: Field) -> bool:
    """Whether a redirection writes over a disk or the memory."""
    return target.is_known and _DEVICE.match(posixpath.normpath(target.text)) is not None


def _removes_root(call: Call) -> str | None:
    parsed = parse(call.fields[1:], _RECURSIVE)
    if parsed.has("no-preserve-root"):
        return "it may delete everything"
    if not parsed.has("r", "R", "recursive"):
        return None
    return (
        "it deletes the root, a home or the system"
        if any(_is_vital(word, call) for word in parsed.operands + parsed.unsure)
        else None
    )


def _opens_root(call: Call, name: str) -> str | None:
    parsed = parse(call.fields[1:], _MODES)
    if not parsed.has("R", "recursive") or not any(_is_vital(word, call) for word in parsed.operands[1:]):
        return None
    return f"{name} -R over the root, a home or the system breaks it"


def _finds_root(call: Call) -> str | None:
    search = find.read(call.fields[1:])
    removes = search.deletes or any(command and command[0].text.rpartition("/")[2] == "rm" for command in search.runs)
    is_whole = not any(
        word.text in ("-name", "-iname", "-path", "-regex", "-empty", "-mtime", "-newer") for word in call.fields
    )
    if removes and is_whole and any(_is_vital(word, call) for word in search.starts):
        return "it deletes the root, a home or the system"
    return None


def _is_vital(word: Field, call: Call) -> bool:
    """The root, a home, one of the system's directories, or all that lies in one of these."""
    if not word.is_known:
        return False
    for place in call.places or frozenset({call.home}):
        path = posixpath.normpath(posixpath.join(place, word.text))
        if path.startswith("//"):
            path = path[1:]
        while path.rpartition("/")[2] in ("*", ".*", "{*,.*}", "?*", ".[!.]*", ".??*") and path != "/":
            path = posixpath.dirname(path)
        parts = path.strip("/").split("/")
        if path == "/" or path == call.home or (len(parts) == 1 and parts[0] in _SYSTEM):
            return True
        if len(parts) == 2 and parts[0] in ("home", "Users"):
            return True
    return False


def _runs_what_it_fetched(call: Call, name: str) -> str | None:
    if name not in SHELLS and name not in ("source", ".", "eval"):
        return None
    is_fed = any(_name(one) in _FETCHERS for one in call.feed.calls)
    is_asked = any(
        re.search(r"[$<]\(\s*(?:sudo\s+)?(?:curl|wget)\b|`\s*(?:curl|wget)\b", word.source) for word in call.fields[1:]
    )
    # A script's name on the command line: then what is fed is only its input.
    reads_input = not any(word.is_exact and not word.text.startswith("-") for word in call.fields[1:]) or any(
        word.text == "-s" for word in call.fields[1:]
    )
    if (is_fed and reads_input) or is_asked:
        return "it runs what it has just fetched; fetch it into a file, look at it, then run it"
    return None


def _name(call: Call) -> str:
    return (call.name or "").rpartition("/")[2]


# --- what is asked about -------------------------------------------------------------------------------------------


def destroys(call: Call, name: str) -> str | None:
    """Why the command needs approval; None where it destroys nothing."""
    words = call.fields[1:]
    match name:
        case "rm":
            parsed = parse(words, _RECURSIVE)
            recursive, force = parsed.has("r", "R", "recursive"), parsed.has("f", "force")
            return "it deletes whole directories without asking" if recursive and force else None
        case "git":
            return git_commands.destroys(git_commands.read(words))
        case "find":
            return "it deletes what it finds" if find.read(words).deletes else None
        case "shred":
            return "it overwrites files for good"
        case "dd":
            return (
                "it overwrites its target"
                if any(word.text.startswith("of=/dev/") and word.text[3:] != "/dev/null" for word in words)
                else None
            )
        case "truncate":
            return (
                "it empties files"
                if any(word.text in ("-s0", "--size=0") for word in words) or _follows(words, ("-s", "--size"), "0")
                else None
            )
        case "docker" | "podman":
            return "it deletes containers, images or volumes" if "prune" in [word.text for word in words] else None
        case "kubectl" | "terraform" | "tofu":
            return (
                "it deletes what runs elsewhere"
                if any(word.text in ("delete", "destroy") for word in words[:2])
                else None
            )
        case _ if name in _DATABASES:
            return "it deletes data from a database" if any(_SQL.search(text) for text in _said(call)) else None
        case "dropdb":
            return "it deletes a database"
        case _:
            return None


def _follows(words: Sequence[Field], options: Sequence[str], value: str) -> bool:
    return any(one.text in options and other.text == value for one, other in itertools.pairwise(words))


def _said(call: Call) -> Iterator[str]:
    """All the text that a database's client gets from the script."""
    yield " ".join(word.text for word in call.fields[1:])
    yield from call.feed.texts
    for fed in call.feed.calls:
        yield " ".join(word.text for word in fed.fields[1:])
        yield from fed.feed.texts
