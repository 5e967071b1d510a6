"""Programs that run other programs (env, xargs, timeout …), and what they run. What is not read in full is unsure. Pure."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from limpet.guard.policy.bash.effects_found import Call, EvaluatedText
from limpet.guard.policy.bash.state import ShellState
from limpet.guard.policy.bash.words import Field
from limpet.guard.policy.programs.getopt import OptionSyntax, parse

Inner = list[Call | EvaluatedText]
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_LOADER = re.compile(r"ld(?:-(?:linux|musl)[\w.-]*)?\.so|ld-linux|ld-musl|ld64\.so")
_ANYTHING = Field("", "the words it reads", "unknown", many=True)


def _long(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _inside(call: Call, words: Sequence[Field], **changes: object) -> Call:
    return replace(call, fields=tuple(words), in_shell=False, is_function=False, depth=call.depth + 1, **changes)  # type: ignore[arg-type]  # fields of Call


def _evaluated(call: Call, text: str) -> EvaluatedText:
    state = ShellState(places=call.places, home=call.home, has_arguments=True, is_foreign=True)
    return EvaluatedText(text=text, source=call.source, state=state, feed=call.feed, depth=call.depth + 1)


def _after(call: Call, syntax: OptionSyntax, *, positionals: int = 0) -> Inner | None:
    """The command that follows the options and some words of the program's own."""
    parsed = parse(call.fields[1:], syntax)
    if not parsed.is_sure or any(word.many for word in parsed.operands[:positionals]):
        return None
    rest = parsed.operands[positionals:]
    return [_inside(call, rest)] if rest else []


_PLAIN: dict[str, tuple[OptionSyntax, int]] = {
    "nohup": (OptionSyntax(stops=True), 0),
    "nice": (OptionSyntax(valued="n", long_valued=_long("adjustment"), stops=True), 0),
    "timeout": (
        OptionSyntax(valued="ks", flags="v", long_valued=_long("kill-after signal"), stops=True,
               long_flags=_long("foreground preserve-status verbose")), 1,
    ),
    "setsid": (OptionSyntax(flags="cfw", long_flags=_long("ctty fork wait"), stops=True), 0),
    "stdbuf": (OptionSyntax(valued="ioe", long_valued=_long("input output error"), stops=True), 0),
    "ionice": (OptionSyntax(valued="cn", flags="t", long_valued=_long("class classdata"), stops=True), 0),
    "taskset": (OptionSyntax(flags="ac", long_flags=_long("all-tasks cpu-list"), stops=True), 1),
    "chrt": (OptionSyntax(flags="bfiorRa", long_flags=_long("batch fifo idle other rr"), stops=True), 1),
    "time": (OptionSyntax(flags="pva", valued="fo", long_flags=_long("append portability verbose"), stops=True,
                    long_valued=_long("format output")), 0),
    "chroot": (OptionSyntax(long_valued=_long("groups userspec"), long_flags=_long("skip-chdir"), stops=True), 1),
    "unshare": (OptionSyntax(flags="muinpUCTfrc",
        long_flags=_long("mount uts ipc net pid user cgroup time fork map-root-user"), stops=True), 0),
    "doas": (OptionSyntax(flags="n", valued="uC", stops=True), 0),
    "busybox": (OptionSyntax(stops=True), 0), "toybox": (OptionSyntax(stops=True), 0),
    "caffeinate": (OptionSyntax(flags="dims", stops=True), 0), "setarch": (OptionSyntax(flags="R", stops=True), 0),
    "catchsegv": (OptionSyntax(stops=True), 0), "eatmydata": (OptionSyntax(stops=True), 0),
    "unbuffer": (OptionSyntax(flags="p", stops=True), 0),
}  # fmt: skip


_ENV = OptionSyntax(flags="i0v", valued="uC", stops=True, long_flags=_long("ignore-environment null debug"),
              long_valued=_long("unset chdir"))  # fmt: skip
_XARGS = OptionSyntax(flags="0rtpxo", valued="IinPLldasE", stops=True, long_flags=_long("null no-run-if-empty verbose exit open-tty"),
                long_valued=_long("max-args max-procs max-lines delimiter arg-file max-chars replace"))  # fmt: skip
# What they open or enter themselves, before anything else runs.
_OPENED = {
    "env": (_ENV, ("C", "chdir")),
    "time": (_PLAIN["time"][0], ("o", "output")),
    "xargs": (_XARGS, ("a", "arg-file")),
}


def opened(call: Call, name: str) -> list[Field]:
    """The files and directories that env, time and xargs open themselves."""
    syntax, options = _OPENED[name]
    return [
        value for option, value in parse(call.fields[1:], syntax).options if option in options and value is not None
    ]


def _env(call: Call) -> Inner | None:
    parsed = parse(call.fields[1:], _ENV)
    rest = parsed.operands
    if not parsed.is_sure:
        return None
    while rest and rest[0].text[:1] != "=" and "=" in rest[0].text:
        rest = rest[1:]
    places = None if parsed.has("C", "chdir") else call.places
    return [_inside(call, rest, places=places)] if rest else []


def _sudo(call: Call) -> Inner | None:
    syntax = OptionSyntax(
        flags="nSkEHbPAB", valued="ugCDhprtTUR", stops=True, long_valued=_long("user group chdir host prompt"),
        long_flags=_long("non-interactive stdin preserve-env set-home"),
    )  # fmt: skip
    parsed = parse(call.fields[1:], syntax)
    rest = parsed.operands
    if not parsed.is_sure:
        return None
    while rest and rest[0].is_exact and _ASSIGNMENT.match(rest[0].text):
        rest = rest[1:]
    return [_inside(call, rest, places=None if parsed.has("D", "R", "chdir") else call.places)] if rest else []


def _nice(call: Call) -> Inner | None:
    words = call.fields
    if len(words) > 1 and words[1].is_exact and re.fullmatch(r"-\d+", words[1].text):
        return [_inside(call, words[2:])] if len(words) > 2 else []
    return _after(call, *_pair("nice"))


def _pair(name: str) -> tuple[OptionSyntax]:
    return (_PLAIN[name][0],)


def _xargs(call: Call) -> Inner | None:
    parsed = parse(call.fields[1:], _XARGS)
    if not parsed.is_sure or parsed.has("i", "l", "replace"):
        return None
    words = parsed.operands or [Field("echo", "echo")]
    marks = [value.text for name, value in parsed.options if name == "I" and value is not None]
    if not marks:
        return [_inside(call, [*words, _ANYTHING], feed=replace(call.feed, is_unsure=True))]
    mark = marks[-1]
    if not mark or mark in words[0].text:
        return None
    return [_inside(call, [_with_hole(word, mark) for word in words])]


def _with_hole(word: Field, mark: str) -> Field:
    """The word where something unknown takes the mark's place."""
    if mark not in word.text:
        return word
    return Field(word.text.split(mark)[0], word.source, "unknown")


def _su(call: Call) -> Inner | None:
    syntax = OptionSyntax(
        flags="lmpfP", valued="csgGw", long_valued=_long("command shell group"), long_flags=_long("login")
    )
    parsed = parse(call.fields[1:], syntax)
    texts = [value for name, value in parsed.options if name in ("c", "command")]
    if not parsed.is_sure or len(texts) != 1 or texts[0] is None or not texts[0].is_exact:
        return None
    return [_evaluated(call, texts[0].text)]


def _watch(call: Call) -> Inner | None:
    syntax = OptionSyntax(flags="bcdegptwx", valued="nq", stops=True, long_valued=_long("interval"),
                    long_flags=_long("beep color differences errexit chgexit no-title exec"))  # fmt: skip
    parsed = parse(call.fields[1:], syntax)
    if not parsed.is_sure or not all(word.is_exact for word in parsed.operands):
        return None
    if parsed.has("x", "exec"):
        return [_inside(call, parsed.operands)]
    return [_evaluated(call, " ".join(word.text for word in parsed.operands))]


def _flock(call: Call) -> Inner | None:
    syntax = OptionSyntax(flags="sxenuFov", valued="wEc", stops=True, long_flags=_long("shared exclusive nonblock unlock close no-fork"),
                    long_valued=_long("timeout conflict-exit-code command"))  # fmt: skip
    parsed = parse(call.fields[1:], syntax)
    rest = parsed.operands[1:]
    if not parsed.is_sure or any(word.many for word in parsed.operands[:1]):
        return None
    if rest and rest[0].text in ("-c", "--command"):
        return [_evaluated(call, rest[1].text)] if len(rest) == 2 and rest[1].is_exact else None
    return [_inside(call, rest)] if rest else []


def _loader(call: Call) -> Inner | None:
    rest = call.fields[1:]
    return [_inside(call, rest)] if rest and not rest[0].may_be_option else None


SHELLS = frozenset("bash sh dash zsh ksh ash mksh rbash fish".split())
_CLEAR = frozenset("ceuxvfnhB")


def command_text(call: Call) -> tuple[Field, bool] | None:
    """What follows `bash -c`, and whether bash reads that text and nothing else first; None where there is no -c."""
    waiting = list(call.fields[1:])
    is_clear = call.fields[0].text.rpartition("/")[2] == "bash"
    while waiting and waiting[0].is_exact and waiting[0].text[:1] in ("-", "+"):
        option = waiting.pop(0).text
        if option in ("--norc", "--noprofile", "--posix", "--login", "--verbose"):
            is_clear = is_clear and option in ("--norc", "--noprofile")
            continue
        if option.startswith("--"):
            return None
        is_clear = is_clear and set(option[1:]) <= _CLEAR | {"o"}
        names = [waiting.pop(0) for letter in option[1:] if letter in "oO" and waiting]
        is_clear = is_clear and all(name.text in ("pipefail", "errexit", "nounset", "xtrace") for name in names)
        if "c" in option[1:]:
            text = (
                waiting[1]
                if waiting and waiting[0].text == "--" and len(waiting) > 1
                else waiting[0]
                if waiting
                else None
            )
            return (text, is_clear) if text is not None else None
    return None


def _shell(call: Call) -> Inner | None:
    text = command_text(call)
    if text is None or not text[0].is_exact:
        return None
    return [_evaluated(call, text[0].text)]


_OTHERS: dict[str, Callable[[Call], Inner | None]] = {
    "env": _env, "sudo": _sudo, "nice": _nice, "xargs": _xargs, "su": _su, "watch": _watch, "flock": _flock,
    **dict.fromkeys(SHELLS, _shell),
}  # fmt: skip


# They run what stands in their arguments as another program in ways that are not read here, or are of no use without a terminal.
_RUNNERS = frozenset(
    "timeout nice nohup xargs setsid stdbuf sudo doas su time busybox toybox parallel watch script ssh chroot unshare nsenter"
    " flock ionice chrt taskset strace ltrace gdb lldb screen tmux at batch crontab systemd-run runuser setpriv capsh"
    " start-stop-daemon xvfb-run unbuffer rlwrap faketime eatmydata fakeroot socat nc ncat netcat dbus-run-session run-parts"
    " entr bwrap docker podman nerdctl kubectl pkexec numactl prlimit choom daemon daemonize catchsegv valgrind perf vi vim"
    " nvim view ex ed emacs nano npx pnpx bunx uvx pipx setarch linux32 linux64 sg newgrp chpst softlimit logsave".split()
)


def runs_its_arguments(name: str) -> bool:
    """Whether the program of that unversioned name starts other programs that its arguments name; env and shells aside."""
    return (
        name in _RUNNERS
        or name in _PLAIN
        or (name in _OTHERS and name not in SHELLS and name != "env")
        or is_loader(name)
    )


def is_wrapper(name: str) -> bool:
    """Whether the program runs what its arguments name. Shells only count where they are asked to read a text."""
    return name in _PLAIN or name in _OTHERS or is_loader(name)


def is_loader(name: str) -> bool:
    return _LOADER.match(name) is not None


def unwrapped(call: Call, name: str) -> Inner | None:
    """What the program runs, as its arguments say; None where that is not sure. `name` is the program's plain name."""
    if is_loader(name):
        return _loader(call)
    if name in _OTHERS:
        return _OTHERS[name](call)
    syntax, positionals = _PLAIN[name]
    return _after(call, syntax, positionals=positionals)


def exported(call: Call, name: str) -> list[str]:
    """The variables that env and sudo set for what they run."""
    if name not in ("env", "sudo"):
        return []
    named = []
    for word in call.fields[1:]:
        name, equals, _ = word.text.partition("=")
        if equals and not name.startswith("-"):
            named.append(name)
    return named
