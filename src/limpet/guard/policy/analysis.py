"""Everything that a command would run: its script is parsed and followed, wrappers are unwrapped, scripts for other shells read too."""

from dataclasses import replace

from limpet.core.command import Argv, Command
from limpet.guard.policy.bash import aborts, side_effects
from limpet.guard.policy.bash.effects_found import Analysis, Call, EvaluatedText
from limpet.guard.policy.bash.interpreter import Interpreter, TooMuch
from limpet.guard.policy.bash.parser import Parser, Unreadable
from limpet.guard.policy.bash.state import ShellState, exact
from limpet.guard.policy.bash.variables import is_name
from limpet.guard.policy.bash.words import known
from limpet.guard.policy.programs import find, wrappers

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


async def analyze(command: Command, parser: Parser, *, home: str, place: str) -> Analysis | Unreadable:
    """All that the command would do. Unreadable if its own script is; a script inside that is not becomes a doubt."""
    state = ShellState(places=frozenset({place}), home=command.env.get("HOME", home))
    for name, value in command.env.items():
        if is_name(name) and name != "HOME":
            state.set(name, exact(value))
    analysis = Analysis()
    match command.what:
        case Argv(args):
            source = " ".join(args)
            analysis.calls.append(
                Call(fields=known(*args), source=source, places=state.places, home=state.home, in_shell=False)
            )
        case script:
            analysis.scripts.append(EvaluatedText(text=script.text, source=script.text, state=state))
            tree = await parser.parse(script.text)
            if isinstance(tree, Unreadable):
                return tree
    await _follow(analysis, parser)
    return analysis


async def _follow(analysis: Analysis, parser: Parser) -> None:
    """Reads scripts and unwraps calls until nothing new appears."""
    scripts = calls = 0
    while True:
        if scripts < len(analysis.scripts):
            await _script(analysis.scripts[scripts], analysis, parser)
            scripts += 1
        elif calls < len(analysis.calls):
            call = analysis.calls[calls]
            if call.is_function and not analysis.is_function(call):
                call = analysis.calls[calls] = replace(call, is_function=False)
            _call(call, analysis)
            calls += 1
        else:
            return
        if len(analysis.calls) > MOST_CALLS:
            analysis.doubt(analysis.calls[0].source, f"it runs more than {MOST_CALLS} commands", "split it")
            return


async def _script(script: EvaluatedText, analysis: Analysis, parser: Parser) -> None:
    if script.depth > DEEPEST:
        analysis.doubt(script.source, "it is nested too deeply", "write the commands themselves")
        return
    tree = await parser.parse(script.text)
    if isinstance(tree, Unreadable):
        analysis.doubt(script.source, f"the text that it runs {tree.reason}", "write the commands themselves")
        return
    if script.is_handler and side_effects.may_change(tree.file.stmts, script.bodies or {}):
        analysis.doubt(
            script.source, "it may change variables or the directory between any two commands", "trap EXIT only"
        )
    if script.is_handler and aborts.may_abort(tree.file.stmts, script.bodies or {}, has_readonly=False):
        analysis.doubt(script.source, "an error in it may end any command of the script", "trap EXIT only")
    if script.bodies is not None and aborts.makes_readonly(tree.file.stmts):
        analysis.doubt(
            script.source, "what it makes readonly is set elsewhere", "make it readonly in the script itself"
        )
    if script.bodies is not None and side_effects.of_functions(tree.file.stmts):
        analysis.doubt(
            script.source, "the functions that it defines may be called elsewhere", "define them in the script itself"
        )
    try:
        walk = Interpreter(tree.source, analysis, feed=script.feed, depth=script.depth, bodies=script.bodies)
        walk.run(tree.file, script.state)
    except (RecursionError, TooMuch):
        analysis.doubt(script.source, "it is nested too deeply", "write it flat")


def _call(call: Call, analysis: Analysis) -> None:
    name = plain_name(call)
    if name is None or call.is_function:
        return
    if call.depth > DEEPEST:
        analysis.doubt(call.source, "it is nested too deeply", "write the command itself")
        return
    if name == "find":
        search = find.read(call.fields[1:])
        inner: wrappers.Inner | None = None
        if search.unsure is None and (made := find.calls(call, search)) is not None:
            inner = list(made)
        if inner is None:
            analysis.doubt(
                call.source, f"what {search.unsure or 'it'} means to find is not sure", "write the expression out"
            )
    elif wrappers.is_wrapper(name):
        inner = wrappers.unwrapped(call, name)
        if inner is None and name not in wrappers.SHELLS:
            analysis.doubt(call.source, f"what {name} runs is not sure", "write the command itself")
    else:
        return
    for one in inner or []:
        if isinstance(one, EvaluatedText):
            analysis.scripts.append(one)
        else:
            _named(one, analysis)


def _named(call: Call, analysis: Analysis) -> None:
    if call.name is None:
        analysis.doubt(call.source, "the name of a command depends on something else", "write the name out")
    analysis.calls.append(call)
