"""How a command is put to its shell, so that the tool learns where the shell ended, or its pid. The command itself is the
script of a real `bash -c`, as it is: `$?`, traps, line numbers and messages are bash's own. Starts nothing.

What the tool learns comes at the end of standard error (`Marks`), on a line that begins with a token of the call's own.
"""

import posixpath
import re
import secrets
import string
from dataclasses import dataclass

from limpet.core.command import Argv, Script

BASH = "/bin/bash"

# The shell's directory is asked of the kernel: a process that shares it (clone(2), CLONE_FS) starts the shell, waits, and looks
# where it stands then. That holds through exit, exec, traps, set -e, syntax errors and kill -9. PERL's syscall() makes such a
# process in a millisecond; where there is no perl (an image, a box with few programs), bash's EXIT trap says it, and a command
# with an EXIT trap or an exec of its own says nothing. A perl that may not be executed is found all the same: bash's words on that
# are no words of the command, so standard error waits in another descriptor until perl runs.
_ASKING = r"""
shopt -s execfail
case $HOSTTYPE in x86_64) n=56;; aarch64|riscv64) n=220;; *) n=;; esac
if [[ $n ]] && hash perl 2>/dev/null; then
exec 250>&2 2>/dev/null
PERL_BADLANG=0 exec perl -e "$3" -- "$0" "$1" "$2" "$n"
exec 2>&250 250>&-
fi
[[ $1 == */bash ]] || exec "$1" -c "$2"
exec 250>&2
export LIMPET_MARK="$0 " BASH_ENV=/dev/fd/251
exec "$1" -c "$2" 251<<'END'
trap "{ builtin printf %s ${LIMPET_MARK@Q}; builtin pwd -P; } >&250" EXIT
unset BASH_ENV LIMPET_MARK
exec 251<&-
END
"""
# A command that is too long for an argument is a script that says it itself: on its first line, so that lines keep their numbers.
_LONG = 120 * 1024  # bytes
_TELLING = "trap '{{ builtin printf %s \"{mark} \"; builtin pwd -P; }} >&2' EXIT; "
# In a box without bash every command is such a script, for its POSIX shell.
_POSIX_TELLING = 'trap \'printf "%s " "{mark}" >&2; pwd -P >&2\' EXIT; '
_POSIX_HOLDING_ITSELF = (
    "printf '%s pid %s\\n' '{mark}' $$ >&2; trap 'printf \"%s end %s\\n\" \"{mark}\" \"$?\" >&2' EXIT; "
)
# As a background task likewise: it is its own holding shell, whose process group the runtime ends.
_HOLDING_ITSELF = (
    "builtin printf '{mark} pid %s\\n' $$ >&2; trap 'builtin printf \"{mark} end %s\\n\" \"$?\" >&2' EXIT; "
)
# To another shell such a command is no argument at all: it comes in pieces, which bash puts together in a file without a name, and
# the shell reads that at this descriptor, which it closes where it can. What it then runs has the `$0`, the arguments and the standard
# input of `-c`. By the shell's name; of one that is not here nothing is known, and the command is refused as too long.
_PIECE = 30_000  # characters
_FROM_PIECES = """IFS=
exec 8<<<"${*:4}" || exit 126
unset IFS; set -- "${@:1:3}"
"""
_SOURCED = (". /dev/fd/8", "exec 8<&-; ")
_READERS = {
    **dict.fromkeys("sh dash ash ksh ksh93 mksh yash".split(), _SOURCED),
    "zsh": ('eval "exec 8<&-; $(</dev/fd/8)"', ""),  # `.` would change $0
    "fish": ("source /dev/fd/8", ""),
    "python": ("exec(compile(open(8, encoding='utf-8').read(), '<string>', 'exec'))", ""),
}
# bash gives its own process to the last program of a script (`make -C sub` would move it), but not while it has a trap: so it gets
# one for a signal that is never sent, where the script does not speak of traps.
_PERL = r"""
my($m,$h,$s,$n)=@ARGV;delete $ENV{PERL_BADLANG};open my $e,">&=250";open STDERR,">&",$e;close $e;
if($h=~m{/bash$}&&$s!~/trap/&&($^F=99)&&pipe(my $r,my $w)){
  my $f=fileno $r;syswrite $w,"trap : RTMAX;unset BASH_ENV;exec $f<&-\n";close $w;$ENV{BASH_ENV}="/dev/fd/$f"}
my $p=syscall($n+0,529,0,0,0,0);
if($p<=0){setpgrp if!$p;exec{$h}$h,"-c",$s;print STDERR "$h: $!\n";exit 127}
$SIG{PIPE}="IGNORE";waitpid $p,0;my $c=$?;my $d=readlink"/proc/self/cwd";
syswrite STDERR,"$m $d\n";exit($c&127?128+($c&127):$c>>8)
"""

# A background task's shell, in a process group of its own as under `bash -c`, below a holding shell that outlives it: the holding shell
# forwards SIGTERM and reports the end. After a SIGTERM it then stops itself, so that the SIGKILL that follows finds the whole tree.
_HOLDING = r"""
exec 9>&2 2>/dev/null
set -m
k=0 s=0
trap 'k=$((k+1)); kill -TERM -- "-$p"' TERM
"$1" -c "$2" 2>&9 9>&- & p=$!
builtin printf '%s pid %s\n' "$0" "$p" >&9
while :; do wait "$p"; c=$?; [[ $k == "$s" ]] && break; s=$k; done
builtin printf '%s end %s\n' "$0" "$c" >&9
((k)) && kill -STOP $$
exit "$c"
"""
# The same on a terminal, which has one group in front.
_HOLDING_TERMINAL = r"""
exec 9>&2 2>/dev/null
k=0
trap 'k=1' TERM
(builtin printf '%s pid %s\n' "$0" "$BASHPID" >&9; exec "$1" -c "$2" 2>&9 9>&-)
c=$?
builtin printf '%s end %s\n' "$0" "$c" >&9
((k)) && kill -STOP $$
exit "$c"
"""

_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")
# One program with plain words as arguments, on one line: whatever it does, the shell itself stays where it is.
_PLAIN = re.compile(r"[A-Za-z0-9_./+-][A-Za-z0-9_./+:,@%=-]*(?: +[A-Za-z0-9_./+:,@%=-]+)*")
_MOVES = frozenset(". builtin cd command coproc enable eval exec popd pushd source time trap".split())
_LETTERS = string.ascii_lowercase


@dataclass(frozen=True, slots=True)
class MarkedScript:
    """What to start, and the token with which it tells something; None where there is nothing to tell."""

    what: Script | Argv
    mark: str | None


def asking(command: str, shell: str | None, *, box_shell: str = BASH) -> MarkedScript:
    """`command`, wrapped so that the shell reports its last directory. `box_shell` is what runs scripts in the box."""
    if not _is_bash(box_shell):
        return _for_posix(command, shell, _POSIX_TELLING)
    if (reader := _reader(command, shell)) is not None:
        mark = new_mark()
        return MarkedScript(reader.wrapped(_ASKING, mark, more=_PERL), mark)
    if stays_where_it_is(command):
        return MarkedScript(Script(command) if shell is None else Argv((shell, "-c", command)), None)
    mark = new_mark()
    if _is_long(command, shell):
        return MarkedScript(Script(_TELLING.format(mark=mark) + command), mark)
    return MarkedScript(Argv((BASH, "-c", _ASKING, mark, shell or BASH, command, _PERL)), mark)


def holding(command: str, shell: str | None, *, terminal: bool, box_shell: str = BASH) -> MarkedScript:
    """`command` as a background task: it tells its pid, and its end. `box_shell` is what runs scripts in the box."""
    if not _is_bash(box_shell):
        return _for_posix(command, shell, _POSIX_HOLDING_ITSELF)
    mark = new_mark()
    outer = _HOLDING_TERMINAL if terminal else _HOLDING
    if (reader := _reader(command, shell)) is not None:
        return MarkedScript(reader.wrapped(outer, mark, more=""), mark)
    if _is_long(command, shell):
        return MarkedScript(Script(_HOLDING_ITSELF.format(mark=mark) + command), mark)
    return MarkedScript(Argv((BASH, "-c", outer, mark, shell or BASH, command)), mark)


def _for_posix(command: str, shell: str | None, telling: str) -> MarkedScript:
    """For a box without bash. Of a shell that was chosen by the configuration nothing is told there."""
    if shell is not None:
        return MarkedScript(Argv((shell, "-c", command)), None)
    mark = new_mark()
    return MarkedScript(Script(telling.format(mark=mark) + command), mark)


def _is_long(command: str, shell: str | None) -> bool:
    """Whether it has no room in an argument, and is a script for bash."""
    return _is_bash(shell) and _has_no_room(command)


def _is_bash(shell: str | None) -> bool:
    return shell is None or posixpath.basename(shell) == "bash"


def _has_no_room(command: str) -> bool:
    return len(command.encode(errors="surrogatepass")) > _LONG


@dataclass(frozen=True, slots=True)
class _PieceReader:
    """A shell that reads a command from pieces: `how` is what it is told instead."""

    shell: str
    how: str
    command: str

    def wrapped(self, outer: str, mark: str, *, more: str) -> Argv:
        """The program that starts the shell by `outer`, which finds the pieces put together."""
        pieces = (self.command[at : at + _PIECE] for at in range(0, len(self.command), _PIECE))
        return Argv((BASH, "-c", _FROM_PIECES + outer, mark, self.shell, self.how, more, *pieces))


def _reader(command: str, shell: str | None) -> _PieceReader | None:
    """None where the command has room in an argument, or the shell is bash, or one of which nothing is known."""
    if shell is None or _is_bash(shell) or not _has_no_room(command):
        return None
    name = posixpath.basename(shell)
    found = _READERS.get("python" if _PYTHON.fullmatch(name) else name)
    return None if found is None else _PieceReader(shell, found[0], found[1] + command)


def stays_where_it_is(command: str) -> bool:
    """Whether the shell that runs it can have no other directory at its end; False where that takes more than a look."""
    words = command.strip(" \t\n")
    first = words.split(" ", 1)[0]
    return _PLAIN.fullmatch(words) is not None and first not in _MOVES and "=" not in first


def new_mark() -> str:
    """A token that nothing prints by accident, and that no rule of redaction takes for a secret."""
    return "\x1elimpet-" + "".join(secrets.choice(_LETTERS) for _ in range(16))


class MarkerReader:
    """Takes the shell's reports out of a stream's text, piece by piece: lines that begin with the mark."""

    def __init__(self, mark: str) -> None:
        self._said = re.compile(re.escape(mark) + r" (pid|end) (\d+)\r?\n")
        self._start = mark[0]
        self._held = ""
        self.pid: int | None = None
        self.end: int | None = None

    def feed(self, text: str) -> str:
        """The text without the reports; the beginning of what may be a mark is held back."""
        text = self._held + text
        while (said := self._said.search(text)) is not None:
            if said[1] == "pid" and self.pid is None:
                self.pid = int(said[2])
            elif said[1] == "end":
                self.end = int(said[2])
            text = text[: said.start()] + text[said.end() :]
        at = text.rfind(self._start)
        if at < 0 or "\n" in text[at:] or len(text) - at > 64:
            at = len(text)
        self._held = text[at:]
        return text[:at]

    def rest(self) -> str:
        """What was held back, at the end."""
        held, self._held = self._held, ""
        return held


class UnmarkedOutput:
    """The text of a stream that tells something at its end, without that, piece by piece; what may be its start is held back."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._held = ""
        self._is_over = False

    def feed(self, text: str) -> str:
        if self._is_over:
            return ""
        text = self._held + text
        at = text.find(self._mark)
        if at >= 0:
            self._is_over = True
            return text[:at]
        at = text.rfind(self._mark[0])
        if at < 0 or not self._mark.startswith(text[at:]):
            at = len(text)
        self._held = text[at:]
        return text[:at]
