"""Whether output ends in a prompt to a person, and how such a prompt is avoided. Pure; a guess, used for hints only."""

import re
from dataclasses import dataclass

LOOKED_AT = 600  # characters of the end of the output
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LONGEST_LINE = 200

# What asks, and what to do instead: the first pattern that matches the last lines. Source: the manuals of these programs.
_QUESTIONS = tuple(
    (re.compile(pattern, re.IGNORECASE), remedy)
    for pattern, remedy in (
        (r"\[sudo\]|password for .*:|sudo: a (password|terminal) is required",
         "run it without sudo, or with `sudo -n` so that it fails at once"),
        (r"username for '|password for '|could not read (username|password)",
         "use a URL that needs no login, a token in a credential helper, or a public repository"),
        (r"are you sure you want to continue connecting|host key verification failed",
         "use `ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new`"),
        (r"enter passphrase|passphrase for", "use a key without a passphrase, or an agent, and `-o BatchMode=yes`"),
        (r"\bpass(word|code)\b[^\n]{0,40}[:?]\s*$", "give the password by a file or a variable that the program reads"),
        (r"do you want to continue\? \[y/n\]", "add `-y` (apt-get, dnf, yum)"),
        (r"need to install the following packages|ok to proceed\?", "add `--yes` (npx, npm init)"),
        (r"proceed \(\[?y\]?/n\)\?", "add `--yes` (pip, conda)"),
        (r"overwrite .*\?|replace .*\?", "add `-f` or `-o`, or remove the target first"),
        (r"[\[(]\s*(y/n|yes/no|y/n/a|y/n/q)[^\])\n]*[\])]", "add the flag that answers yes, such as `--yes`, `-y` or `--force`"),
        (r"\b(are you sure|continue|proceed|confirm)\b[^\n]{0,60}\?\s*$", "add the flag that answers yes, such as `--yes` or `--force`"),
        (r"press (enter|return|any key)|hit enter", "look for a flag such as `--batch`, `--no-pause` or `--non-interactive`"),
        (r"--more--|\(end\)\s*$|^:\s*$", "pipe it through `cat`, or add `--no-pager`"),
        (r"eoferror: eof when reading a line", "give the answers as arguments, or send them by stdin_text"),
        (r"\b(name|email|login|user(name)?|token|version|license)\b[^\n]{0,40}[:?]\s*$",
         "give the answer by an option, or add `--yes` to take the defaults"),
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt that was not answered: its line, and what to do instead, without a capital letter and full stop."""

    line: str
    remedy: str


def find_prompt(*outputs: str) -> Prompt | None:
    """The question at the end of one of these outputs; the first that has one."""
    for output in outputs:
        lines = [line.strip() for line in _ESCAPES.sub("", output[-LOOKED_AT:]).replace("\r", "\n").split("\n")]
        for line in [line for line in lines if line][-3:][::-1]:
            for pattern, remedy in _QUESTIONS:
                if len(line) <= _LONGEST_LINE and pattern.search(line):
                    return Prompt(line=line, remedy=remedy)
    return None


def hang_directive(prompt: Prompt) -> str:
    """The hint for a model whose command failed at a prompt."""
    return (
        f"It asked {prompt.line!r} and no one can answer. Do not run it again as it is: {prompt.remedy}."
        " Where it must be answered, start it with run_in_background=true and send the answer by stdin_text"
        " (with pty=true if it insists on a terminal)."
    )
