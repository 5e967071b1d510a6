"""What a git command may do: which of its words run programs, which only read, which destroy. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from limpet.guard.policy.bash.words import Field
from limpet.guard.policy.programs.getopt import names_any

READS = frozenset(
    """status log diff show blame shortlog describe rev-parse rev-list ls-files ls-tree cat-file name-rev merge-base for-each-ref
    show-ref count-objects whatchanged cherry range-diff diff-tree diff-index diff-files var version grep""".split()
)
# Everyday commands that run nothing by themselves: what hooks, filters and aliases of the repository run is the repository's own.
_KNOWN = READS | frozenset(
    """add commit checkout switch restore branch tag stash merge fetch pull push clone init mv rm reset clean revert cherry-pick
    remote reflog notes worktree apply am format-patch archive bundle gc fsck prune rebase ls-remote sparse-checkout""".split()
)
_GLOBAL_ALONE = frozenset(
    "--no-pager --bare --literal-pathspecs --no-optional-locks --no-replace-objects -P --version --help".split()
)
_GLOBAL_VALUED = frozenset(["-C"])
_RUN_LONG = tuple(
    """exec upload-pack receive-pack open-files-in-pager ext-diff config template textconv paginate upload-archive edit
    edit-description edit-todo interactive exec-path separate-git-dir gpg-sign strategy tool""".split()
)
_GLOBAL_RUNS = frozenset("-c --config-env --exec-path -p --paginate".split())
_GLOBAL_WITH_VALUE = frozenset("-C --git-dir --work-tree --namespace --super-prefix --attr-source".split())
_REMOTES = frozenset("clone fetch pull push ls-remote remote".split())
# Subcommands that are there to run programs, and those that do with one word.
_RUNNERS = frozenset("filter-branch difftool mergetool instaweb web--browse".split())
_RUNNING_ACTIONS = {"bisect": "run", "submodule": "foreach"}
# Names of settings whose values are programs.
_RUN_KEYS = re.compile(
    r"alias\.|include(if)?\.|core\.(pager|editor|sshcommand|fsmonitor|hookspath|askpass|gitproxy|alternaterefscommand)"
    r"|sequence\.editor|.*\.(cmd|command|textconv|clean|smudge|process|driver|helper|program|uploadpack|receivepack|proxycommand)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class GitCommand:
    """`subcommand` with the words after it, the directories that -C and its like name, and `unsure`: the first word that may run
    something, or is not understood."""

    subcommand: str
    words: tuple[Field, ...]
    directories: tuple[Field, ...]
    unsure: str | None


def read(words: Sequence[Field]) -> GitCommand:
    """The words after `git`."""
    at = 0
    directories: list[Field] = []
    unsure = None
    while at < len(words) and (not words[at].is_exact or words[at].text.startswith("-")):
        word = words[at]
        name, equals, value = word.text.partition("=")
        if word.is_exact and word.text in _GLOBAL_ALONE:
            at += 1
        elif word.is_exact and name in _GLOBAL_VALUED:
            directories += [Field(value, word.source)] if equals else words[at + 1 : at + 2]
            at += 1 if equals else 2
        else:
            unsure = unsure or word.source
            at += 2 if word.text in ("-c", "--config-env", "--exec-path") else 1
    if at >= len(words):
        return GitCommand("", (), tuple(directories), unsure)
    subcommand, rest = words[at].text, tuple(words[at + 1 :])
    return GitCommand(subcommand, rest, tuple(directories), unsure or _unsure(words[at], rest))


def _unsure(subcommand: Field, words: Sequence[Field]) -> str | None:
    if subcommand.text not in _KNOWN:
        return subcommand.source
    if found := _running_word(subcommand.text, words):
        return found
    if subcommand.text in _REMOTES and (
        found := next((w.source for w in words if not w.is_known and w.text == ""), None)
    ):
        return found
    if (
        subcommand.text == "stash"
        and words
        and words[0].text not in ("push", "pop", "apply", "list", "show", "drop", "clear", "save")
    ):
        return words[0].source
    return None


def word_that_runs(words: Sequence[Field]) -> str | None:
    """The first of the words after `git` by which it runs a program that they name, or sets one that it will run; None if none does.
    Aliases, hooks and filters of the repository are the repository's own."""
    at = 0
    while at < len(words) and words[at].text.startswith("-"):
        name, equals, _ = words[at].text.partition("=")
        if name in _GLOBAL_RUNS:
            return words[at].source
        at += 2 if name in _GLOBAL_WITH_VALUE and not equals else 1
    return _running_word(words[at].text, words[at + 1 :]) if at < len(words) else None


def _running_word(subcommand: str, words: Sequence[Field]) -> str | None:
    if subcommand in _RUNNERS:
        return subcommand
    if words and words[0].text == _RUNNING_ACTIONS.get(subcommand):
        return words[0].source
    letters = {"rebase": "x", "grep": "O", "clone": "uc", "ls-remote": "u"}.get(subcommand, "")
    if found := names_any(words, letters, _RUN_LONG):
        return found
    keys = words if subcommand in ("config", "clone", "init") else ()
    return next((word.source for word in keys if _RUN_KEYS.match(word.text)), None) or next(
        (word.source for word in words if word.text.lower().startswith("ext::")), None
    )


def only_reads(git: GitCommand) -> bool:
    """Whether the subcommand changes nothing in the repository; `--output` writes a file."""
    if git.subcommand in READS:
        return names_any(git.words, "", ("output",)) is None
    if git.subcommand in ("branch", "tag", "remote", "stash", "worktree", "reflog"):
        plain = [word.text for word in git.words if word.is_exact]
        if len(plain) != len(git.words):
            return False
        alone = {"branch": {"-a", "-r", "-v", "-vv", "--list", "--show-current", "--all"}, "tag": {"-l", "--list", "-n"},
                 "remote": {"-v", "show"}, "stash": {"list", "show"}, "worktree": {"list"}, "reflog": {"show"}}[git.subcommand]  # fmt: skip
        return all(word in alone for word in plain) and (bool(plain) or git.subcommand not in ("stash", "worktree"))
    return False


def destroys(git: GitCommand) -> str | None:
    """Why the command needs approval; None where nothing is lost."""
    words = [word.text for word in git.words]
    letters = "".join(word[1:] for word in words if word[:1] == "-" and word[1:2] != "-")
    match git.subcommand:
        case "reset" if _long(words, "--hard", 4) or _long(words, "--merge", 4):
            return "it throws away what is not committed"
        case "push":
            return _push(words, letters)
        case "clean" if (
            ("f" in letters or _long(words, "--force", 3)) and "n" not in letters and "--dry-run" not in words
        ):
            return "it deletes files that git does not know"
        case "checkout" | "restore" if _throws_away(git.subcommand, words, letters):
            return "it throws away what is not committed"
        case "switch" if "f" in letters or _long(words, "--force", 3) or _long(words, "--discard-changes", 4):
            return "it throws away what is not committed"
        case "branch" if "D" in letters or (
            ("d" in letters or "--delete" in words) and ("f" in letters or "--force" in words)
        ):
            return "it deletes a branch whatever is on it"
        case "stash" if words[:1] in (["clear"], ["drop"]):
            return "it throws away what was put aside"
        case "reflog" if words[:1] in (["expire"], ["delete"]):
            return "it deletes the way back to earlier states"
        case "worktree" if words[:1] == ["remove"] and ("f" in letters or "--force" in words):
            return "it throws away what is not committed"
        case "update-ref" | "filter-branch" | "filter-repo":
            return "it rewrites history"
        case "gc" if any(word.startswith("--prune=now") for word in words):
            return "it deletes what nothing refers to any more"
        case _:
            return None


def _long(words: Sequence[str], option: str, least: int) -> bool:
    """The option or one of its abbreviations."""
    return any(len(word) >= least + 1 and option.startswith(word) for word in words)


def _push(words: Sequence[str], letters: str) -> str | None:
    forced = "f" in letters or any(word in ("--force", "--forc", "--mirror", "--prune") for word in words)
    if forced or any(word.startswith("+") and len(word) > 1 for word in words):
        return "it overwrites what others see"
    if "d" in letters or "--delete" in words or any(word.startswith(":") and len(word) > 1 for word in words):
        return "it deletes what others see"
    return None


def _throws_away(subcommand: str, words: Sequence[str], letters: str) -> bool:
    if "f" in letters or "--force" in words:
        return True
    if subcommand == "restore":
        return not ("S" in letters or "--staged" in words) or "W" in letters or "--worktree" in words
    return "." in words or ("--" in words and words.index("--") + 1 < len(words))
