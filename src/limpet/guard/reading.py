"""A command with everything it would run: scripts are parsed and walked, wrappers unwrapped, texts for other shells read too."""

from dataclasses import replace

from limpet.core.command import Argv, Command
from limpet.guard import aborts, effects, finding, wrappers
from limpet.guard.findings import Call, Evaluated, Findings
from limpet.guard.state import State, exact
from limpet.guard.syntax import Parser, Unreadable
from limpet.guard.variables import is_name
from limpet.guard.walk import TooMuch, Walk
from limpet.guard.words import known

DEEPEST = 8
MOST_CALLS = 20_000
SYSTEM_DIRECTORIES = frozenset("/bin /usr/bin /sbin /usr/sbin /usr/local/bin /usr/local/sbin".split())


def plain_name(call: Call) -> str | None:
    """The program's name: the last part of a path into the system's directories, else as written; None where it is not sure."""
    name = call.name
    if name is None or "/" not in name:
        return name
    directory, _, base = name.rpartition("/")
    if directory in SYSTEM_DIRECTORIES or (wrappers.is_loader(base) and directory.startswith(("/lib", "/usr/lib"))):
        return base
    return name


async def read(command: Command, parser: Parser, *, home: str, place: str) -> Findings | Unreadable:
    """All that the command would do. Unreadable if its own script is; a script inside that is not becomes a doubt."""
    state = State(places=frozenset({place}), home=command.env.get("HOME", home))
    for name, value in command.env.items():
        if is_name(name) and name != "HOME":
            state.set(name, exact(value))
    findings = Findings()
    match command.what:
        case Argv(args):
            source = " ".join(args)
            findings.calls.append(
                Call(fields=known(*args), source=source, places=state.places, home=state.home, in_shell=False)
            )
        case script:
            findings.scripts.append(Evaluated(text=script.text, source=script.text, state=state))
            tree = await parser.parse(script.text)
            if isinstance(tree, Unreadable):
                return tree
    await _follow(findings, parser)
    return findings


async def _follow(findings: Findings, parser: Parser) -> None:
    """Reads scripts and unwraps calls until nothing new appears."""
    scripts = calls = 0
    while True:
        if scripts < len(findings.scripts):
            await _script(findings.scripts[scripts], findings, parser)
            scripts += 1
        elif calls < len(findings.calls):
            call = findings.calls[calls]
            if call.is_function and not findings.is_function(call):
                call = findings.calls[calls] = replace(call, is_function=False)
            _call(call, findings)
            calls += 1
        else:
            return
        if len(findings.calls) > MOST_CALLS:
            findings.doubt(findings.calls[0].source, f"it runs more than {MOST_CALLS} commands", "split it")
            return


async def _script(script: Evaluated, findings: Findings, parser: Parser) -> None:
    if script.depth > DEEPEST:
        findings.doubt(script.source, "it is nested too deeply", "write the commands themselves")
        return
    tree = await parser.parse(script.text)
    if isinstance(tree, Unreadable):
        findings.doubt(script.source, f"the text that it runs {tree.reason}", "write the commands themselves")
        return
    if script.is_handler and effects.may_change(tree.file.stmts, script.bodies or {}):
        findings.doubt(
            script.source, "it may change variables or the directory between any two commands", "trap EXIT only"
        )
    if script.is_handler and aborts.may_abort(tree.file.stmts, script.bodies or {}, has_readonly=False):
        findings.doubt(script.source, "an error in it may end any command of the script", "trap EXIT only")
    if script.bodies is not None and aborts.makes_readonly(tree.file.stmts):
        findings.doubt(
            script.source, "what it makes readonly is set elsewhere", "make it readonly in the script itself"
        )
    if script.bodies is not None and effects.of_functions(tree.file.stmts):
        findings.doubt(
            script.source, "the functions that it defines may be called elsewhere", "define them in the script itself"
        )
    try:
        walk = Walk(tree.source, findings, feed=script.feed, depth=script.depth, bodies=script.bodies)
        walk.run(tree.file, script.state)
    except (RecursionError, TooMuch):
        findings.doubt(script.source, "it is nested too deeply", "write it flat")


def _call(call: Call, findings: Findings) -> None:
    name = plain_name(call)
    if name is None or call.is_function:
        return
    if call.depth > DEEPEST:
        findings.doubt(call.source, "it is nested too deeply", "write the command itself")
        return
    if name == "find":
        search = finding.read(call.fields[1:])
        inner: wrappers.Inner | None = None
        if search.unsure is None and (made := finding.calls(call, search)) is not None:
            inner = list(made)
        if inner is None:
            findings.doubt(
                call.source, f"what {search.unsure or 'it'} means to find is not sure", "write the expression out"
            )
    elif wrappers.is_wrapper(name):
        inner = wrappers.unwrapped(call, name)
        if inner is None and name not in wrappers.SHELLS:
            findings.doubt(call.source, f"what {name} runs is not sure", "write the command itself")
    else:
        return
    for one in inner or []:
        if isinstance(one, Evaluated):
            findings.scripts.append(one)
        else:
            _named(one, findings)


def _named(call: Call, findings: Findings) -> None:
    if call.name is None:
        findings.doubt(call.source, "the name of a command depends on something else", "write the name out")
    findings.calls.append(call)
