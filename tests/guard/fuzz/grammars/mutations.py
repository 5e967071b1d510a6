"""Everyday commands and known ways around a guard, cut up and put together again: no grammar, only what people and attackers wrote."""

import random
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass

from tests.guard.bypasses import BYPASSES
from tests.guard.everyday import READONLY, TOOLS, UNDER_AN_ALLOWLIST
from tests.guard.fuzz.allowed import ALLOWED, STEERING
from tests.guard.fuzz.everyday import EVERYDAY
from tests.guard.fuzz.everyday import TOOLS as MORE_TOOLS
from tests.guard.fuzz.expand import FORBIDDEN, LONGEST, spelled

_TOKEN = re.compile(r"\s+|[|&;<>(){}]+|\$\(|`|\"[^\"]*\"|'[^']*'|[^\s|&;<>(){}`\"']+|.", re.DOTALL)
# Nothing that deletes for real may be asked for: the box has only its stand-in, but `find -delete` and `git clean` are real.
# Programs that are not among the allowed ones become one that is: else most of what comes out is refused for its name alone.
_STRANGE = re.compile(
    r"(?<![\w./-])(?:{})(?![\w.=-])".format(
        "|".join(sorted(map(re.escape, (TOOLS | MORE_TOOLS) - ALLOWED - STEERING), key=len, reverse=True))
    )
)
_BENIGN = [_STRANGE.sub("ls", text) for text in (*READONLY, *UNDER_AN_ALLOWLIST, *EVERYDAY)]
_INSIDE = [
    "{0}; {1}", "{0} && {1}", "{0} || {1}", "{0} | {1}", "{0}\n{1}", "{0} & {1}", "echo $({0}); {1}", "if {0}; then {1}; fi",
            "({0}); {1}",
    "for i in 1; do {0}; {1}; done", "{{ {0}; {1}; }}", "f() {{ {0}; }}; {1}; f", "cat <({0}); {1}", "echo \"$({0})\" | {1}",
            "! {0} && {1}",
    "while {0}; do {1}; break; done", "case a in a) {0};; esac; {1}", "cat <<E\n{0}\nE\n{1}", "cat <<'E'\n{0}\nE\n{1}",
            "x=$({0}) && {1}",
    "time {0}; {1}", "{0} # {1}", "# {0}\n{1}", "trap '{0}' EXIT; {1}", "{0} > o 2>&1; {1}", "{1} <<< \"$({0})\"",
            "[[ -n $({0}) ]] && {1}",
    "echo '{0}'; {1}", "echo \"{0}\"; {1}", "{0} \\\n; {1}", "printf '%s\\n' \"{0}\" | {1}", "echo ${{x:-{0}}}; {1}", "echo `{0}`; {1}",
]  # fmt: skip
_SNIPPETS = [
    ";", "|", "&", "&&", "||", "\n", "$(", ")", "`", "'", '"', "\\", "{", "}", "((", "))", "[[", "]]", "<<E", "\nE\n", ">", "<", "#",
            "$", "!", "*", " ",
    "=", "[", "]", "rm", " rm x", "; rm x", "$x", '"$x"', "${x}", "$'", "\\\n", "\t", "&>", ">&", "<<<", ";;", "in", "do", "done",
            "fi", "case a in a)",
    "esac", "<(", ">(", "{fd}", "2>", "$((", "x=", "x+=", "--", "-c", "-exec", "\r", "\x0b", "\xa0", "é", "\x01", "~", "a[", "@", "%",
            "^", ",", "..",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutations:
    """Scripts by mutation."""

    name: str = "mutations"

    def script(self, chance: random.Random) -> str:
        """One script, mutated one to four times."""
        text = chance.choice(BYPASSES if chance.random() < 0.25 else _BENIGN)
        for _ in range(chance.choice([1, 1, 2, 2, 3, 4])):
            text = chance.choice(_MUTATORS)(text, chance)
        # A NUL or half a character is no text that bash could be given.
        return text[:LONGEST].replace("\0", "").encode(errors="ignore").decode().rstrip("\\") or "ls"


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def _swap_tokens(text: str, chance: random.Random) -> str:
    tokens = _tokens(text)
    first, second = chance.randrange(len(tokens)), chance.randrange(len(tokens))
    tokens[first], tokens[second] = tokens[second], tokens[first]
    return "".join(tokens)


def _take_token(text: str, chance: random.Random) -> str:
    """One token from elsewhere."""
    tokens = _tokens(text)
    tokens[chance.randrange(len(tokens))] = chance.choice(_tokens(chance.choice([*_BENIGN, *BYPASSES])))
    return "".join(tokens)


def _drop_token(text: str, chance: random.Random) -> str:
    tokens = _tokens(text)
    del tokens[chance.randrange(len(tokens))]
    return "".join(tokens) or "ls"


def _double_token(text: str, chance: random.Random) -> str:
    tokens = _tokens(text)
    at = chance.randrange(len(tokens))
    tokens.insert(chance.randrange(len(tokens) + 1), tokens[at])
    return "".join(tokens)


def _insert(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice(_SNIPPETS) + text[at:]


def _drop(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text))
    return text[:at] + text[at + 1 :] or "ls"


def _spell(text: str, chance: random.Random) -> str:
    """One word otherwise written."""
    tokens = _tokens(text)
    words = [at for at, token in enumerate(tokens) if re.fullmatch(r"[\w./-]+", token)]
    if words:
        at = chance.choice(words)
        tokens[at] = spelled(tokens[at], chance)
    return "".join(tokens)


def _forbid(text: str, chance: random.Random) -> str:
    """A word becomes the forbidden one."""
    tokens = _tokens(text)
    words = [at for at, token in enumerate(tokens) if re.fullmatch(r"[\w./-]+", token)]
    if words:
        tokens[chance.choice(words)] = FORBIDDEN
    return "".join(tokens)


def _quote(text: str, chance: random.Random) -> str:
    """A stretch of words becomes one."""
    tokens = _tokens(text)
    begin = chance.randrange(len(tokens))
    end = begin + chance.choice([1, 1, 2, 3, 5])
    return "".join(tokens[:begin]) + shlex.quote("".join(tokens[begin:end])) + "".join(tokens[end:])


def _splice(text: str, chance: random.Random) -> str:
    """Another command in it, or it in another."""
    other = chance.choice(_BENIGN if chance.random() < 0.7 else BYPASSES)
    pair = (text, other) if chance.random() < 0.5 else (other, text)
    return chance.choice(_INSIDE).format(*pair)


def _substitute(text: str, chance: random.Random) -> str:
    """One word becomes what another command prints."""
    tokens = _tokens(text)
    other = chance.choice(_BENIGN if chance.random() < 0.6 else BYPASSES)
    form = chance.choice(
        [
            "$({})",
            '"$({})"',
            "`{}`",
            "<({})",
            "${{x:-{}}}",
            '"${{x:-{}}}"',
            "$(({}))",
            "\\$({})",
            "'$({})'",
            "${{x/a/{}}}",
        ]
    )
    tokens[chance.randrange(len(tokens))] = form.format(other)
    return "".join(tokens)


def _cross(text: str, chance: random.Random) -> str:
    """The beginning of one and the end of another."""
    first, second = _tokens(text), _tokens(chance.choice(_BENIGN if chance.random() < 0.5 else BYPASSES))
    return "".join(first[: chance.randrange(len(first) + 1)] + second[chance.randrange(len(second)) :]) or "ls"


_MUTATORS: list[Callable[[str, random.Random], str]] = [
    _swap_tokens, _take_token, _drop_token, _double_token, _insert, _drop, _spell, _spell, _forbid, _quote, _splice, _splice,
            _substitute, _cross,
]  # fmt: skip
MUTATIONS = Mutations()
