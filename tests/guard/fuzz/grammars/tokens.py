"""Pieces of shell in any order: most of it is no bash, and what still is one shows where two readers of bash differ."""

import random
from dataclasses import dataclass

# Often: what opens and closes things, so that by chance some of it is closed.
_PIECES = """
let let declare export local typeset readonly (( )) [[ ]] 1 1 v=1 v++ 1|rm 1&rm a&&rm a||rm |rm &rm ;rm >o 1>o <f a|b 0 time test [ ]
echo ls cat : true a x f a b f echo rm rm $x "$x" ${x} ${x:-a} '' "" 'rm' \\rm \\; ; ; & | && || ( ) { } $( ) ` ' " # \\ ! ~ * ? =
x= x=a x[0]= [ ] [[ ]] (( )) $(( )) $[ ] ${ } < > >> << <<- <<< <<E <<'E' E >& <& &> 2>&1 <( >( ;; ;& if then else fi for in do
done while case esac a) f() function time coproc $' $" $'\\'' "\\"" '\\' "'" '"' @( !( +( ?( {a,b} {a, ,} .. 1 2 - -- -n $ $$ $#
$@ "$@" ${# ${! ${x# ${x% ${x/ ${x@ == =~ -eq < \\n E\\n
""".split()
_FRAGMENTS = [
    "\n", "\n", "\n", " ", " ", " ", "\t", "\\\n", "\nE\n", "\n\tE\n", "rm x", "rm x", "; rm x", "\nrm x\n", "$(rm x)", "`rm x`",
            "#\n", "# '\n", '"$(', ')"', "\r", "\x0b",
    "cat <<E\n", "cat <<'E'\n", "cat <<-E\n", "echo '", 'echo "', "'; rm x; '", '"; rm x; "', "case a in a) ", ";; esac",
            "if true; then ", "; fi", "f() { ", "; }", "\\\\",
    "${x:-", "${x#", '"${x:-', '}"', "$((1+", "))", "((x=", "[[ a == ", " ]]", "[[ a =~ ", "<(rm x", "for i in a; do ", "; done",
            "{ ", "( ", "{", "}}", "x=(", "x[", "]=1",
    "$'a", "$'\\'", "`echo \\`", "\\`", "\\$(", "'$(rm x)'", "echo ", "echo ", "ls ", "cat ", "\x01", "\x7f", "é", "\u2028", "\xa0",
            "eval '", "trap '", "' EXIT", "bash -c '", "!", "^a^b",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tokens:
    """Scripts by chance alone."""

    name: str = "tokens"

    def script(self, chance: random.Random) -> str:
        """One script of two to twelve pieces. Quotes, brackets and words that are left open are closed half of the time."""
        made = [
            chance.choice(
                ["echo ", "ls ", "cat ", "", "echo a ", "x=a ", ": ", "let ", "let v=1", "declare ", "[[ a ", "((1"]
            )
        ]
        for _ in range(chance.choice([2, 3, 3, 4, 4, 5, 6, 8, 12])):
            made.append(chance.choice(_PIECES if chance.random() < 0.5 else _FRAGMENTS))
            made.append(chance.choice(["", "", " ", " ", "\n"]))
        text = "".join(made)
        return (_closed(text) if chance.random() < 0.7 else text).replace("\0", "")


_PAIRS = {"(": ")", "{": "}", "'": "'", '"': '"', "`": "`"}


def _closed(text: str) -> str:
    """Whatever a simple reader thinks is open, closed in order; it errs often enough."""
    waiting: list[str] = []
    before = ""
    for letter in text:
        if before == "\\":
            before = ""
            continue
        if waiting and letter == waiting[-1]:
            waiting.pop()
        elif waiting and waiting[-1] == "'":
            pass
        elif letter in "'\"`" or (letter in "({" and not (waiting and waiting[-1] == '"' and before != "$")):
            waiting.append(_PAIRS[letter])
        before = letter
    return text + "".join(("; }" if end == "}" and len(waiting) == 1 else end) for end in reversed(waiting))


TOKENS = Tokens()
