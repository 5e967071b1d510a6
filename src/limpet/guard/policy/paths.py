"""Which files a command names, and whether those may be named. Pure: where links lead is asked for elsewhere."""

import fnmatch
import itertools
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from limpet.guard.policy.bash.effects_found import Call, FileOpening, GlobExpansion
from limpet.guard.policy.bash.words import Field
from limpet.guard.policy.programs import find, git_commands
from limpet.guard.policy.programs.catalog import Program, known, plain
from limpet.guard.policy.programs.getopt import OptionSyntax, parse
from limpet.guard.policy.programs.wrappers import opened

DEVICES = frozenset(f"/dev/{name}" for name in "null zero full random urandom tty stdin stdout stderr".split())
_DESCRIPTOR = re.compile(r"/dev/fd/\d+")
# Directories and files that hold credentials, wherever they lie.
CREDENTIALS = re.compile(
    r"(?:^|/)(?:\.ssh|\.aws|\.azure|\.gnupg|\.kube|\.docker|\.password-store|\.pki|\.netrc|\.pgpass|\.npmrc|\.pypirc|\.git-credentials"
    r"|\.(?:bash|zsh|sh|python|node_repl|psql|mysql|sqlite)_history|\.histfile|\.mozilla|\.thunderbird|\.vault-token|\.my\.cnf|\.s3cfg|\.boto"
    r"|\.config/(?:gcloud|gh|op|hub|rclone|google-chrome|chromium|BraveSoftware|doctl|heroku|[^/]+/credentials[^/]*)"
    r"|\.local/share/keyrings|\.gem/credentials|\.cargo/credentials(?:\.toml)?|\.terraform\.d|id_(?:rsa|dsa|ecdsa|ed25519))(?:/|$)"
)
# Files in which later commands, or the next shell, find orders.
ORDERS = re.compile(
    r"(?:^|/)(?:\.git(?:/.*)?|\.gitconfig|\.gitattributes|\.gitmodules|\.config/git(?:/.*)?|\.bash(?:rc|_profile|_login|_logout|_aliases)|\.profile"
    r"|\.inputrc|\.zsh(?:rc|env)|\.zprofile|\.pam_environment|\.ripgreprc|\.lessfilter|\.wgetrc|\.curlrc|\.awkrc|\.tarrc)$"
)
_THROUGH_A_PATTERN = re.compile(r"[*?\[][^/]*/.*[^/]")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_STARTS = re.compile(r"(?:^|(?<=[=:,@<>;|]))(?:/|\.\.(?:/|$)|~(?:/|$))")


@dataclass(frozen=True, slots=True)
class PathUse:
    """A path that is used. `source` is the word as written; `place` the directory it counts from; None where that is not sure.
    Where `is_pattern`, its last part becomes the names that match."""

    path: str
    source: str
    place: str | None
    is_pattern: bool = False

    @property
    def absolute(self) -> str | None:
        """The path from the root, its `..` not undone: only the kernel knows where they lead. None where it is not sure."""
        if self.path.startswith("/"):
            return self.path
        return None if self.place is None else posixpath.join(self.place, self.path)


@dataclass(frozen=True, slots=True)
class Unsure:
    """A word that may be any path. `why` is the end of a sentence that begins with the word."""

    source: str
    why: str
    instead: str


def is_device(path: str) -> bool:
    """Devices that keep and tell nothing, and the command's own descriptors."""
    return path in DEVICES or _DESCRIPTOR.fullmatch(path) is not None


def may_match(pattern: str, name: str) -> bool:
    """Whether the last part of a path may become the name, as bash reads patterns, with `nocaseglob` or without."""
    last = pattern.rstrip("/").rpartition("/")[2].replace("[^", "[!")
    return (
        any(opening in last for opening in ("[:", "[.", "[="))
        or fnmatch.fnmatchcase(name, last)
        or fnmatch.fnmatchcase(name.lower(), last.lower())
    )


def of_opening(opening: FileOpening) -> Iterator[PathUse | Unsure]:
    yield from _of_word(opening.target, opening.places, is_whole=True)


def of_call(call: Call, name: str) -> Iterator[PathUse | Unsure]:
    """The paths among a command's words."""
    for word, is_whole in _words(call, name):
        yield from _of_word(word, call.places, is_whole=is_whole)
    program = known(name)
    if program is not None and program.operands == "texts":
        for word in call.fields[1:]:
            if word.kind == "pattern":
                yield from of_listing(GlobExpansion(word, call.places))
    if name == "ln":
        yield from _link_targets(call)


def of_listing(listing: GlobExpansion) -> Iterator[PathUse | Unsure]:
    """The directory whose names bash looks through for a pattern."""
    word = listing.pattern
    if _THROUGH_A_PATTERN.search(word.text):
        yield _may_lead_through_a_link(word)
        return
    directory = word.text.rstrip("/").rpartition("/")
    for place in sorted(listing.places) if listing.places is not None else [None]:
        yield PathUse((directory[0] or directory[1]) if directory[1] else ".", word.source, place)


def _of_word(word: Field, places: frozenset[str] | None, *, is_whole: bool) -> Iterator[PathUse | Unsure]:
    if not word.is_known:
        yield Unsure(word.source, "is not known before it runs", "write the path out")
        return
    if word.kind == "pattern" and _THROUGH_A_PATTERN.search(word.text):
        yield _may_lead_through_a_link(word)
        return
    for path in dict.fromkeys(_candidates(word.text, is_whole=is_whole)):
        for place in sorted(places) if places is not None else [None]:
            yield PathUse(path, word.source, place, word.kind == "pattern")


def _may_lead_through_a_link(word: Field) -> Unsure:
    return Unsure(
        word.source, "may lead through a link", "name the directories, and use patterns for the last part only"
    )


def _candidates(text: str, *, is_whole: bool) -> Iterator[str]:
    """What of a word may be a path: itself, and what stands in it after =, :, @ or an option's letter."""
    if text in ("", "-"):
        return
    if text.lower().startswith("file:"):
        rest = text[5:]
        yield (
            "/" + rest.lstrip("/").partition("/")[2]
            if rest.startswith("//") and not rest.startswith("///")
            else "/" + rest.lstrip("/")
        )
        return
    if _URL.match(text) and not is_whole:
        return
    if not text.startswith("-") or is_whole:
        yield text
        yield from (text[1:],) if text.startswith(("@", "<")) else ()
    if "@" in text[1:] and not text.startswith("/"):
        yield text.rpartition("@")[2]
    _name, equals, value = text.partition("=")
    if equals and not text.startswith("/"):
        yield from _candidates(value, is_whole=False)
    if text.startswith("-") and not text.startswith("--") and len(text) > 2:
        yield from _attached(text[2:])
    for found in _STARTS.finditer(text):
        if found.start() and not _URL.match(text[: found.end() + 1].rpartition("=")[2]):
            yield text[found.start() :]
            yield re.split(r"[:,;|]", text[found.start() :])[0]


def _attached(value: str) -> Iterator[str]:
    """-Ipath, -xfpath: the value may begin after any letter."""
    yield value
    at = value.find("/")
    dots = value.find("..")
    if at > 0:
        yield value[at:]
    if dots > 0:
        yield value[dots:]


def _words(call: Call, name: str) -> Iterator[tuple[Field, bool]]:
    """The words that may hold paths, each with whether it is a path and nothing else."""
    words = call.fields[1:]
    program = known(name)
    match plain(name):
        case "find":
            search = find.read(words)
            yield from ((word, True) for word in [*(search.starts or [Field(".", ".")]), *search.paths])
        case "git":
            git = git_commands.read(words)
            yield from ((word, False) for word in [*git.directories, *git.words] if word.is_known or word.text == "")
        case "sed" | "awk":
            yield from _script_words(words, program)
        case "cd" | "pushd":
            yield from ((word, True) for word in words if word.text not in ("-L", "-P", "-e", "-@", "--"))
        case "test" | "[":
            yield from _test_words(words)
        case "xargs" | "time" | "env":
            yield from ((word, True) for word in opened(call, name))
        case _:
            yield from _plain_words(words, program)


def _script_words(words: Sequence[Field], program: Program | None) -> Iterator[tuple[Field, bool]]:
    assert program is not None
    syntax = OptionSyntax(valued=program.valued + "f", long_valued=frozenset((*program.long_texts, "file")))
    parsed = parse(words, syntax)
    has_script = parsed.has("e", "expression", "f", "file")
    yield from ((word, False) for word in parsed.operands[0 if has_script else 1 :])
    yield from ((value, True) for option, value in parsed.options if option in ("f", "file") and value is not None)
    yield from ((word, False) for word in parsed.unsure)


def _test_words(words: Sequence[Field]) -> Iterator[tuple[Field, bool]]:
    """Only what a file test looks at: text that is compared is no path."""
    for before, word in itertools.pairwise(words):
        if (
            before.is_exact
            and re.fullmatch(r"-[abcdefghkprsuwxGLNOS]", before.text)
            and not (word.is_exact and word.text == "]")
        ):
            yield word, True
    for at, word in enumerate(words):
        if word.is_exact and word.text in ("-nt", "-ot", "-ef"):
            yield from ((side, True) for side in words[max(0, at - 1) : at + 2 : 2])


def _plain_words(words: Sequence[Field], program: Program | None) -> Iterator[tuple[Field, bool]]:
    if program is None:
        yield from ((word, False) for word in words)
        return
    if program.operands == "special":
        return
    yield from ((word, False) for word in words if _has_attached(word, program))
    syntax = OptionSyntax(valued=program.valued, long_valued=frozenset(program.long_texts))
    parsed = parse(words, syntax)
    if program.operands == "texts":
        yield from (
            (value, True) for option, value in parsed.options if value is not None and option not in program.texts
        )
        return
    skipped = 1 if program.operands == "first is text" and not parsed.has(*program.first) else 0
    yield from ((word, False) for word in parsed.unsure)
    yield from ((word, False) for word in parsed.operands[skipped:])
    for option, value in parsed.options:
        # curl reads the file behind an @ also where it else takes a text.
        is_text = option in program.texts or option in program.long_texts
        if value is not None and (not is_text or value.text.startswith("@")):
            yield value, False


def _has_attached(word: Field, program: Program) -> bool:
    """-Ipath: an option with something behind it that may be a path."""
    return word.is_exact and word.text[:1] == "-" and len(word.text) > 2 and word.text[1] not in "-" + program.texts


def _link_targets(call: Call) -> Iterator[PathUse | Unsure]:
    """ln -s TARGET: a relative one counts from where the link lies."""
    parsed = parse(call.fields[1:], OptionSyntax(valued="tS", long_valued=frozenset({"target-directory", "suffix"})))
    known_words = [word for word in parsed.operands if word.is_known]
    if len(known_words) < 2 or not parsed.has("s", "symbolic"):
        return
    *targets, link = known_words
    if parsed.has("r", "relative") or any(".." in target.text.split("/") for target in targets):
        yield Unsure(call.source, "makes a link that leads elsewhere once it is moved", "link to the whole path")
    for target in targets:
        for place in sorted(call.places) if call.places is not None else [None]:
            for base in (posixpath.dirname(link.text), link.text):
                yield PathUse(posixpath.join(base, target.text), target.source, place)
