"""Invocations of known programs that run other programs, or whose effect their arguments do not show. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from limpet.guard.policy.bash.effects_found import Call
from limpet.guard.policy.bash.variables import is_name, rules_programs
from limpet.guard.policy.bash.words import Field
from limpet.guard.policy.bash.words import known as known_words
from limpet.guard.policy.programs import find, git_commands, wrappers
from limpet.guard.policy.programs.catalog import READERS, Program, known, plain
from limpet.guard.policy.programs.getopt import OptionSyntax, names_any, parse
from limpet.guard.policy.programs.running_options import NARROW, option_that_runs, unversioned
from limpet.guard.policy.programs.sed_awk import awk_only_prints, sed_only_prints

_TAR_RUNS = ("to-command", "checkpoint-action", "use-compress-program", "rsh-command", "info-script", "new-volume-script", "absolute-names",
             "files-from", "transform", "xform")  # fmt: skip
_WRITE_OUT = "write its options out, and ./* for a bare pattern"
_READ_ANSWERS = frozenset("nm size strings".split())


@dataclass(frozen=True, slots=True)
class WordHazard:
    """`word` is the argument that was found, empty where it is the whole; `instead` a clause that says what to write."""

    word: str
    instead: str


LEAVE_OUT = "leave that option out"


def of_words(name: str, args: Sequence[str]) -> WordHazard | None:
    """As `of`, for arguments that no shell reads, where scripts may stand in files. `name` is the unversioned one."""
    words = known_words(*args)
    match plain(name):
        case "sed":
            return WordHazard(_first_script(args), LEAVE_OUT) if _sed(words, from_files=True) else None
        case "awk":
            return WordHazard(_first_script(args), LEAVE_OUT) if _awk(words, READERS["awk"], from_files=True) else None
        case "git":
            found = git_commands.word_that_runs(words)
        case "tar" | "bsdtar":
            found = tar_option(words)
        case "find":
            return _find(words)
        case _:
            found = option_that_runs(name, args)
    return None if found is None else WordHazard(found, LEAVE_OUT)


def _first_script(args: Sequence[str]) -> str:
    return next((word for word in args if not word.startswith("-")), next(iter(args), ""))


def _find(words: Sequence[Field]) -> WordHazard | None:
    search = find.read(words)
    if search.runs:
        return WordHazard("-exec", "list the files, then run the program with their names")
    if search.deletes:
        return WordHazard("-delete", "list the files, then remove them by name")
    if search.writes:
        return WordHazard("-fprint", "list the files, and take what is printed")
    return None if search.unsure is None else WordHazard(search.unsure, "write its expression out")


def of(call: Call, name: str) -> tuple[str, str] | None:
    """Why the call can't be judged by its name, and what to write instead; None where it can."""
    words = call.fields[1:]
    if bad := [one for one in wrappers.exported(call, name) if rules_programs(one) or not is_name(one)]:
        return f"{bad[0]} changes what other commands do", "leave it as it is, or use another name"
    program = known(name)
    match plain(name):
        case "sed":
            return _sed(words)
        case "awk":
            return _awk(words, program)
        case "git":
            unsure = git_commands.read(words).unsure
            return (
                (f"{unsure} may run other programs", "use git's plain commands, without -c and aliases")
                if unsure
                else None
            )
        case "tar":
            found = tar_option(words)
            return (f"{found} may run programs or name further files", _WRITE_OUT) if found else None
        case "jq":
            if any("import" in word.text or "include" in word.text for word in words):
                return "import and include read other files", "name the files as operands"
    return _option(words, program, program.runs if program is not None else ()) or _running_option(words, name)


def _running_option(words: Sequence[Field], name: str) -> tuple[str, str] | None:
    """Of programs that run others only by an option: whether the words have one, or may."""
    plain_name = unversioned(name)
    if plain_name not in NARROW:
        return None
    unsure = next((word.source for word in words if word.may_be_option and not word.is_exact), None)
    found = option_that_runs(plain_name, [word.text for word in words]) or unsure
    return (f"{found} may run programs or name further files", _WRITE_OUT) if found else None


def lists(call: Call, name: str) -> tuple[str, str] | None:
    """As `of`, for what leads to files that the words do not name: lists of names, and links on the way down a tree."""
    program = known(name)
    if name == "find" and find.read(call.fields[1:]).follows:
        return "it follows links", "do without -L and -follow"
    if name in _READ_ANSWERS and any(word.text.startswith("@") for word in call.fields[1:]):
        return "what follows an @ is a file with further names", "name the files themselves"
    words = _dashed(call.fields[1:]) if name == "tar" else call.fields[1:]
    found = _option(words, program, program.lists if program is not None else ())
    if found is None:
        return None
    return found[0].replace("may run programs or name further files", "may follow links or name further files"), found[
        1
    ]


def _option(words: Sequence[Field], program: Program | None, options: tuple[str, ...]) -> tuple[str, str] | None:
    if program is None or not options:
        return None
    found = names_any(words, program.letters(options), program.words(options), valued=program.valued)
    if found is None:
        return None
    return f"{found} may run programs or name further files", _WRITE_OUT


def _sed(words: Sequence[Field], *, from_files: bool = False) -> tuple[str, str] | None:
    # -i takes a suffix, and only an attached one: it says nothing of what the script does.
    parsed = parse(
        [Field("-i", word.source) if word.is_exact and word.text.startswith("-i") else word for word in words], _SED
    )
    if parsed.is_sure and parsed.has("sandbox"):  # sed itself refuses what runs programs and opens files
        return None
    scripts = [value for option, value in parsed.options if option in ("e", "expression")]
    is_in_file = parsed.has("f", "file")
    if not scripts and not is_in_file:
        scripts = list(parsed.operands[:1])
    if not parsed.is_sure or (is_in_file and not from_files):
        return "its options or its script are not sure", "write the script out after -e"
    for script in scripts:
        if script is None or not script.is_exact:
            return "its script is not sure", "write the script out after -e"
        if not sed_only_prints(script.text):
            return (
                f"{script.source} may run programs or write files",
                "use only s, y, p, d, q and their like, without the flags e and w",
            )
    return None


_SED = OptionSyntax(
    flags="nErsuzi", valued="efl", long_valued=frozenset("expression file line-length".split()),
    long_flags=frozenset("quiet silent regexp-extended separate unbuffered null-data debug posix follow-symlinks in-place sandbox".split()),
)  # fmt: skip


def _awk(words: Sequence[Field], program: Program | None, *, from_files: bool = False) -> tuple[str, str] | None:
    assert program is not None
    options, long_options = ("Fvf", {*program.long_texts, "file"}) if from_files else ("Fv", set(program.long_texts))
    parsed = parse(words, OptionSyntax(valued=options, stops=True, long_valued=frozenset(long_options)))
    if parsed.is_sure and parsed.has("f", "file"):
        return None
    if not parsed.is_sure or not parsed.operands or not parsed.operands[0].is_exact:
        return "its program is not sure", "write the program out, in single quotes"
    if not awk_only_prints(parsed.operands[0].text):
        return "its program may run programs or open files", "use no system, getline, pipe or >; turn a > b into b < a"
    return None


def _dashed(words: Sequence[Field]) -> Sequence[Field]:
    """tar's first word may be a cluster of options without its dash."""
    if words and words[0].is_exact and not words[0].text.startswith("-"):
        return [Field(f"-{words[0].text}", words[0].source), *words[1:]]
    return words


def tar_option(words: Sequence[Field]) -> str | None:
    """The word by which tar runs a program, leaves the directory or reads names from a file."""
    found = names_any(_dashed(words)[:1], "IFPT", _TAR_RUNS) or names_any(words, "IFPT", _TAR_RUNS, valued="fCbHKLNVXg")
    if found is None:  # an archive on another host is reached through ssh
        found = next((word.source for word in words if ":" in word.text.partition("/")[0]), None)
    return found


def writes(call: Call, name: str) -> str | None:
    """What makes a program that reads write; None where it only reads."""
    words = call.fields[1:]
    program = known(name)
    assert program is not None
    if plain(name) == "find":
        search = find.read(words)
        return "find deletes or writes there" if search.deletes or search.writes else None
    if program.writes and (
        found := names_any(words, program.letters(program.writes), program.words(program.writes), valued=program.valued)
    ):
        return f"{found} may write"
    parsed = parse(words, OptionSyntax(valued=program.valued, long_valued=frozenset(program.long_texts)))
    operands = parsed.operands if parsed.is_sure else [word for word in words if not word.text.startswith("-")]
    if program.most is not None and (
        len(operands) > program.most or any(word.many or word.kind == "pattern" for word in words)
    ):
        return f"{name} writes its last operand"
    if name == "date" and any(not word.text.startswith("+") for word in parsed.operands):
        return "date sets the clock"
    return None
