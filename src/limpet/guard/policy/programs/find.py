"""What a find expression does: where it starts, what it runs, whether it writes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from limpet.guard.policy.bash.effects_found import Call
from limpet.guard.policy.bash.words import Field

_ALONE = frozenset(
    """-a -and -o -or -not ! ( ) , -true -false -empty -print -print0 -prune -quit -depth -d -daystart -mount -xdev -noleaf -ls
    -nouser -nogroup -readable -writable -executable -ignore_readdir_race -noignore_readdir_race -warn -nowarn -nocasesensitive
    -help --help -version --version""".split()
)
_TEXTS = frozenset(
    """-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -regextype -type -xtype -size -perm -user -group
    -uid -gid -mtime -atime -ctime -mmin -amin -cmin -maxdepth -mindepth -links -inum -used -fstype -printf -context""".split()
)
_PATHS = frozenset("-newer -anewer -cnewer -samefile".split())
_RUNS = frozenset("-exec -execdir -ok -okdir".split())
_WRITES = {"-fprint": 1, "-fprint0": 1, "-fls": 1, "-fprintf": 2}


@dataclass(slots=True)
class FindExpression:
    """`starts` are where it looks, `paths` other files it names, `runs` the commands, `deletes` and `writes` what it does beside.
    `unsure` is the first word that is not understood, as written."""

    starts: list[Field] = field(default_factory=list)
    paths: list[Field] = field(default_factory=list)
    runs: list[list[Field]] = field(default_factory=list)
    deletes: bool = False
    writes: bool = False
    follows: bool = False
    unsure: str | None = None


def read(words: Sequence[Field]) -> FindExpression:
    """The words after `find`."""
    search = FindExpression()
    at = _starts(words, search)
    while at < len(words) and search.unsure is None:
        word = words[at]
        if not word.is_exact:
            search.unsure = word.source
        elif word.text in _ALONE:
            at += 1
        elif word.text == "-follow":
            search.follows = True
            at += 1
        elif word.text == "-delete":
            search.deletes = True
            at += 1
        elif word.text in _RUNS:
            at = _run(words, at + 1, search)
        elif word.text in _TEXTS or word.text in _PATHS or (word.text.startswith("-newer") and len(word.text) == 8):
            at = _value(words, at, search)
        elif word.text in _WRITES:
            search.writes = True
            search.paths += words[at + 1 : at + 2]
            at += 1 + _WRITES[word.text]
        else:
            search.unsure = word.source
    return search


def _starts(words: Sequence[Field], search: FindExpression) -> int:
    at = 0
    while at < len(words) and words[at].is_exact and words[at].text in ("-H", "-L", "-P"):
        search.follows = search.follows or words[at].text == "-L"
        at += 1
    while at < len(words) and words[at].text[:1] not in ("-", "(", ")", "!", ","):
        word = words[at]
        if word.may_be_option and not (word.kind == "pattern" and word.text[:1] not in "*?["):
            search.unsure = word.source
        search.starts.append(word)
        at += 1
    return at


def _value(words: Sequence[Field], at: int, search: FindExpression) -> int:
    """An option and its one value. A value of several words would make the rest an expression."""
    value = words[at + 1] if at + 1 < len(words) else None
    if value is None or value.many or value.kind == "pattern":
        search.unsure = value.source if value is not None else words[at].source
    elif words[at].text not in _TEXTS:
        search.paths.append(value)
    return at + 2


def _run(words: Sequence[Field], at: int, search: FindExpression) -> int:
    command: list[Field] = []
    while at < len(words):
        word = words[at]
        if word.is_exact and (word.text == ";" or (word.text == "+" and command and command[-1].text == "{}")):
            if not command:
                search.unsure = word.source
            search.runs.append(command)
            return at + 1
        if not word.is_exact:
            search.unsure = word.source
        command.append(word)
        at += 1
    search.unsure = command[-1].source if command else "-exec"
    return at


def calls(call: Call, search: FindExpression) -> list[Call] | None:
    """The commands that it runs for what it finds; None where one of their names is what it finds."""
    made = []
    for command in search.runs:
        if "{}" in command[0].text:
            return None
        fields = tuple(_with_found(word, search) for word in command)
        made.append(replace(call, fields=fields, in_shell=False, is_function=False, depth=call.depth + 1))
    return made


def _with_found(word: Field, search: FindExpression) -> Field:
    """`{}` is a path below where the search starts."""
    if "{}" not in word.text:
        return word
    before = word.text.split("{}")[0]
    start = search.starts[0] if len(search.starts) == 1 else Field(".", ".") if not search.starts else None
    if before or start is None or not start.is_exact or start.text[:1] == "-" or search.follows:
        return Field(before, word.source, "unknown")
    return Field(f"{start.text.rstrip('/')}/*", word.source, "pattern")
