"""The guard's corpus of ways around a list of allowed commands, as arguments that no shell reads: `shell_cmd` refuses them too."""

import re
import shlex

from limpet.tools.shell_cmd.programs import refuse_program
from tests.guard.bypasses import EVALUATORS
from tests.guard.bypasses_of_programs import LANGUAGES, WRAPPED

# What needs a shell: expansions, pipes, redirections, several commands.
_SHELL_SYNTAX = re.compile(r"[|&;<>()`$\n*?]")
# These pass, since here a script may stand in a file, and what a repository says is its own.
PASSING = {
    "env rm x": "the program that env names is judged, and shell_cmd forbids no program for what it deletes",
    "env A=1 rm x": "as above",
    "bash x.sh": "a file in the trusted directory",
    "awk -f f": "a file in the trusted directory",
    "sed -f f f": "a file in the trusted directory",
    "make": "a file in the trusted directory",
    "npm run x": "a file in the trusted directory",
    "pip install .": "a file in the trusted directory",
    "less f": "there is no terminal from which it would take a command",
    "more f": "there is no terminal from which it would take a command",
    "man ls": "there is no terminal from which it would take a command",
    "git x": "an alias is the repository's own",
    "git stash branch a": "hooks are the repository's own",
    "git --git-dir=x status": "the directory is held by the check of paths",
    "git --work-tree=x status": "the directory is held by the check of paths",
}


def argv(text: str) -> tuple[str, ...] | None:
    """The words of a command that means the same without a shell; None for others."""
    bare = re.sub(r"'[^']*'|\\[;{}]", "", text)
    return None if _SHELL_SYNTAX.search(bare) else tuple(shlex.split(text))


CASES = [text for text in (*EVALUATORS, *WRAPPED, *LANGUAGES) if argv(text) is not None]


def test_a_way_around_the_guard_is_none_around_shell_cmd() -> None:
    for text in CASES:
        words = argv(text)
        assert words, text

        assert (refuse_program(words[0], words[1:]) is None) == (text in PASSING), text


def test_the_corpus_has_every_exception() -> None:
    assert len(CASES) > 150
    assert set(PASSING) <= set(CASES)


RUNNING_OTHERS = [
    ("git", "-C", ".", "clone", "-u", "id", "x"),
    ("git", "--git-dir", "x", "rebase", "-x", "id"),
    ("find", ".", "-files0-from", "x"),
    ("tar", "-xPf", "a.tar"),
    ("tar", "-cf", "a.tar", "-T", "list"),
    ("env", "BASH_FUNC_ls%%=() { id; }", "ls"),
    ("awk", 'BEGIN { SYMTAB["ARGV"][1] = "/etc/passwd" } { print }', "x"),
    ("sed", "--sandbox", "-f", "x", "--nonsense"),
    ("psql", "-c", "\\! id"),
    ("mysql", "-e", "\\! id"),
    ("ip", "-n", "a", "netns", "exec", "a", "id"),
]


def test_what_the_guard_knew_alone_is_refused() -> None:
    for words in RUNNING_OTHERS:
        assert refuse_program(words[0], words[1:]) is not None, words


RUNNING_NOTHING_ELSE = [
    ("env", "NODE_ENV=production", "node", "x.js"),
    ("git", "switch", "-c", "new"),
    ("git", "-C", "below", "status"),
    ("awk", '{ print $1 " > " $2 }', "x"),
    ("awk", "-f", "x.awk", "y"),
    ("sed", "-f", "x.sed", "y"),
    ("sed", "-n", "/a/,/b/p;5q", "x"),
    ("tar", "-xzf", "x.tgz", "-C", "below"),
    ("find", ".", "-name", "*.py", "-newer", "x", "-print0"),
    ("psql", "-c", "select 1"),
    ("mysql", "-e", "select 1"),
    ("ip", "addr", "show"),
]


def test_what_runs_nothing_else_passes() -> None:
    for words in RUNNING_NOTHING_ELSE:
        assert refuse_program(words[0], words[1:]) is None, words
