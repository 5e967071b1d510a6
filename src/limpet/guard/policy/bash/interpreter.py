"""A script, followed in the order in which bash runs it: what it calls, opens and evaluates, and what is known of variables and
directory by then. Pure. Every node type of the tree is named here; what bash evaluates out of sight is a doubt."""

import re
from collections.abc import Sequence

from limpet.guard.policy.bash import aborts, parameters, redirections, side_effects, simple_commands
from limpet.guard.policy.bash.arithmetic import assigned, computed, only_computes
from limpet.guard.policy.bash.effects_found import Analysis, FileOpening, StdinSource
from limpet.guard.policy.bash.line_continuations import odd_characters, unclear_ends, unclear_lines
from limpet.guard.policy.bash.state import ShellState, Values, exact, join, joined
from limpet.guard.policy.bash.tree import (
    ArithmCmd,
    Arithmetic,
    ArithmExp,
    BinaryCmd,
    BinaryTest,
    Block,
    CallExpr,
    CaseClause,
    CmdSubst,
    CoprocClause,
    CStyleLoop,
    DeclClause,
    File,
    ForClause,
    FuncDecl,
    IfClause,
    LetClause,
    Node,
    ParamExp,
    ParenTest,
    ProcSubst,
    Stmt,
    Subshell,
    Test,
    TestClause,
    TimeClause,
    UnaryTest,
    WhileClause,
    Word,
    WordIter,
)
from limpet.guard.policy.bash.variables import (
    is_harmless_locale,
    is_name,
    is_obeyed_unexported,
    rules_bash,
    rules_programs,
)
from limpet.guard.policy.bash.words import Piece, fields, text_of

Out = tuple[ShellState, ShellState]  # after success, after failure
MOST_WORDS = 50_000
_NUMERIC_TESTS = frozenset("-eq -ne -lt -le -gt -ge".split())
_FILE_TESTS = frozenset("-e -f -d -c -b -p -S -L -h -k -g -u -G -O -N -r -w -x -s".split())
_PLAIN_BACKQUOTES = re.compile(r"`[A-Za-z0-9_ \t\n./=+:,@%|&;$*?~!-]*`")
# What is a word to bash as it is an expression to the tree: `let 1|ls` is a pipe, `let x=2*3` may become the names of files.
_PLAIN_LET = re.compile(r"let(?:[ \t]+[A-Za-z0-9_=+/%,:!~^?$\[\]-]+)+")


class TooMuch(Exception):
    """More words are to be expanded than a real script has: they are nested in each other."""


class Interpreter:
    """One script's walk. `analysis` may be shared by several scripts."""

    def __init__(
        self,
        source: bytes,
        analysis: Analysis,
        *,
        feed: StdinSource = StdinSource(),  # noqa: B008  # frozen
        depth: int = 0,
        bodies: dict[str, side_effects.SideEffects] | None = None,
    ) -> None:
        self.analysis = analysis
        self.feed = feed
        self.depth = depth
        self.bodies = {} if bodies is None else bodies
        self._source = source
        self._left = MOST_WORDS
        self._aborting: frozenset[str] = frozenset()

    def run(self, file: File, state: ShellState) -> ShellState:
        """Follows the whole script; the state in which it ends."""
        whole = side_effects.of(file.stmts)
        # All of them now: a function may call one that is defined after it, and a loop comes back to what stands before.
        self.bodies.update(side_effects.of_functions(file.stmts))
        for line in unclear_lines(self._source, file):
            self.analysis.doubt(
                line, "a backslash at its end joins lines in a way that is read differently", "write it on one line"
            )
        state.has_arrays = state.has_arrays or whole.has_arrays or whole.is_wild
        for character in odd_characters(self._source, file):
            self.analysis.doubt(
                character, "such a character is read in two ways", "leave it out, or write it as $'\\r'"
            )
        for line in unclear_ends(self._source, file):
            self.analysis.doubt(
                line, "bash may end the here-document there", "end it with a word that begins no line of it"
            )
        self.analysis.has_readonly = self.analysis.has_readonly or aborts.makes_readonly(file.stmts)
        self._aborting = aborts.functions_that_may(file.stmts, has_readonly=self.analysis.has_readonly)
        for stmts in aborts.lines(file.stmts):
            state = self._line(stmts, state)
        return state

    # --- order -----------------------------------------------------------------------------------------------------

    def _line(self, stmts: Sequence[Stmt], state: ShellState) -> ShellState:
        """What bash reads at once. Some errors end it anywhere in the middle, and bash goes on with the next."""
        before = state.copy()
        after = join(*self._sequence(stmts, state))
        if not aborts.may_abort(stmts, self._aborting, has_readonly=self.analysis.has_readonly):
            return after
        side_effects.of(stmts, self.bodies.values()).happen(before)
        return join(after, before)

    def _sequence(self, stmts: Sequence[Stmt], state: ShellState) -> Out:
        out = (state, state)
        for stmt in stmts:
            out = self._stmt(stmt, join(*out))
        return out

    def _stmt(self, stmt: Stmt, state: ShellState) -> Out:
        outer = self.feed
        # Where a redirection fails the command does not run, and what it would define or set stays as it was.
        unredirected = state.copy() if stmt.redirs and not isinstance(stmt.cmd, FuncDecl) else None
        for redirect in stmt.redirs:
            redirections.follow(self, redirect, state)
        try:
            if stmt.background:
                self._cmd(stmt, state.copy())
                return state, state
            good, bad = self._cmd(stmt, state)
            if unredirected is not None:
                bad = join(bad, unredirected)
            return (bad, good) if stmt.negated else (good, bad)
        finally:
            self.feed = outer

    def _cmd(self, stmt: Stmt, state: ShellState) -> Out:
        match stmt.cmd:
            case None:
                return state, state
            case CallExpr():
                return simple_commands.call(self, stmt.cmd, state)
            case DeclClause():
                return simple_commands.declare(self, stmt.cmd, state)
            case BinaryCmd():
                return self._binary(stmt.cmd, state)
            case Block():
                return self._sequence(stmt.cmd.stmts, state)
            case Subshell():
                self._sequence(stmt.cmd.stmts, state.copy())
                return state, state
            case IfClause():
                return self._if(stmt.cmd, state)
            case WhileClause():
                return self._while(stmt.cmd, state)
            case ForClause():
                return self._for(stmt.cmd, state)
            case CaseClause():
                return self._case(stmt.cmd, state)
            case FuncDecl():
                return self._function(stmt.cmd, state)
            case TestClause():
                self._test(stmt.cmd.x, state)
                return state, state
            case ArithmCmd():
                self._computes(stmt.cmd, [stmt.cmd.x], state)
                return state, state
            case LetClause():
                self._let(stmt.cmd, state)
                return state, state
            case TimeClause():
                return self._stmt(stmt.cmd.stmt, state) if stmt.cmd.stmt else (state, state)
            case CoprocClause():
                self.unsure(stmt.cmd, "it runs beside the script", "write it without coproc")
                if stmt.cmd.stmt:
                    self._stmt(stmt.cmd.stmt, state.copy())
                return state, state

    def _let(self, cmd: LetClause, state: ShellState) -> None:
        if not _PLAIN_LET.fullmatch(self.text(cmd)):
            self.unsure(cmd, "bash ends its words at |, &, <, > and brackets, and expands *", "write ((…))")
        self._computes(cmd, cmd.exprs, state)

    def _binary(self, cmd: BinaryCmd, state: ShellState) -> Out:
        if cmd.op in ("|", "|&"):
            self._pipe(cmd, state)
            return state, state
        good, bad = self._stmt(cmd.x, state.copy())
        if cmd.op == "&&":
            then_good, then_bad = self._stmt(cmd.y, good.copy())
            return then_good, join(bad, then_bad)
        then_good, then_bad = self._stmt(cmd.y, bad.copy())
        return join(good, then_good), then_bad

    def _pipe(self, cmd: BinaryCmd, state: ShellState) -> None:
        outer = self.feed
        before = len(self.analysis.calls)
        self._stmt(cmd.x, state.copy())
        self.feed = StdinSource(calls=tuple(self.analysis.calls[before:]))
        after = state.copy()
        if isinstance(cmd.y.cmd, TimeClause):
            # Only before a whole pipe it is bash's own word; here it is the program, which knows no functions.
            self.unsure(cmd.y.cmd, "within a pipe it is the program time", "write time before the whole pipe")
            after.functions = frozenset()
        self._stmt(cmd.y, after)
        self.feed = outer

    def _if(self, cmd: IfClause, state: ShellState) -> Out:
        good, bad = self._sequence(cmd.cond, state)
        then = self._sequence(cmd.then, good.copy())
        otherwise = (bad, bad)
        if cmd.else_ is not None:
            rest = cmd.else_
            otherwise = self._if(rest, bad.copy()) if rest.cond else self._sequence(rest.then, bad.copy())
        return join(then[0], otherwise[0]), join(then[1], otherwise[1])

    def _while(self, cmd: WhileClause, state: ShellState) -> Out:
        side_effects.of([*cmd.cond, *cmd.do], self.bodies.values()).happen(state)
        good, bad = self._sequence(cmd.cond, state.copy())
        if cmd.until:
            good, bad = bad, good
        self._sequence(cmd.do, good.copy())
        after = join(state, bad)
        return after, after

    def _for(self, cmd: ForClause, state: ShellState) -> Out:
        happened = side_effects.of([*cmd.do, cmd.loop], self.bodies.values())
        if isinstance(cmd.loop, CStyleLoop):
            self._computes(cmd, [cmd.loop.init], state)
            happened.happen(state)
            self._computes(cmd, [cmd.loop.cond, cmd.loop.post], state)
        else:
            values = self._items(cmd.loop, state)
            happened.values.pop(cmd.loop.name.value, None)
            happened.happen(state)
            self.assign(cmd.loop.name.value, state, source=self.text(cmd.loop))
            state.set(cmd.loop.name.value, values)
        if cmd.select:
            state.set("REPLY", None)
        self._sequence(cmd.do, state.copy())
        return state, state

    def _items(self, loop: WordIter, state: ShellState) -> Values:
        if loop.in_pos is None:
            return None
        values: Values = exact("")
        for word in loop.items:
            for made in fields(word, state, self):
                self.analysis.lists(made, state.places)
                for field in made:
                    values = joined(values, None if field.kind == "unknown" else frozenset({(field.text, field.kind)}))
        return values if values is None or len(values) == 1 else values - {("", "exact")}

    def _case(self, cmd: CaseClause, state: ShellState) -> Out:
        fields(cmd.word, state, self)
        after, falls = state.copy(), None
        for item in cmd.items:
            for pattern in item.patterns:
                fields(pattern, state, self)
            entry = state.copy() if falls is None else join(state.copy(), falls)
            falls = join(*self._sequence(item.stmts, entry))
            after = join(after, falls)
            falls = falls.copy() if item.op in (";&", ";;&") else None
        return after, after

    def _function(self, cmd: FuncDecl, state: ShellState) -> Out:
        name = cmd.name.value
        if simple_commands.is_builtin(name):
            self.unsure(cmd, f"it changes what {name} means", "give the function another name")
        if not isinstance(cmd.body.cmd, Block | Subshell | IfClause | WhileClause | ForClause | CaseClause):
            self.unsure(
                cmd, "where its body ends is read in two ways", "write a line break or ; after the function's }"
            )
        named = {name} if simple_commands.is_plain_function(name) else frozenset[str]()
        body = state.foreign()
        body.functions = state.functions | named
        outer, self.feed = self.feed, StdinSource(is_unsure=True)
        self._stmt(cmd.body, body)
        self.feed = outer
        if simple_commands.is_bomb(name, cmd.body):
            self.analysis.bombs.append(self.text(cmd))
        state.functions |= named
        return state, state

    # --- what is evaluated on the way ------------------------------------------------------------------------------

    def _test(self, test: Test, state: ShellState) -> None:
        match test:
            case Word():
                fields(test, state, self)
            case ParenTest():
                self._test(test.x, state)
            case UnaryTest():
                if test.op in ("-v", "-R"):
                    if not (isinstance(test.x, Word) and is_name(text_of(test.x, state, self) or "")):
                        self.unsure(test, "it evaluates subscripts", 'write [[ -n ${name+x} ]] or [[ -n "$name" ]]')
                elif test.op in _FILE_TESTS:
                    self._looked_at(test.x, state)
                else:
                    self._test(test.x, state)
            case BinaryTest():
                if test.op == "=~":
                    state.set("BASH_REMATCH", None)
                for side in (test.x, test.y):
                    if test.op in _NUMERIC_TESTS and isinstance(side, Word):
                        self._computes(test, [side], state)
                    elif test.op in ("-nt", "-ot", "-ef"):
                        self._looked_at(side, state)
                    else:
                        self._test(side, state)

    def _looked_at(self, word: Test, state: ShellState) -> None:
        for made in fields(word, state, self) if isinstance(word, Word) else []:
            for target in made:
                source = self.text(word)
                self.analysis.openings.append(
                    FileOpening(target=target, writes=False, source=source, places=state.places)
                )

    def _computes(self, node: Node, expressions: Sequence[Arithmetic | None], state: ShellState) -> None:
        for expression in expressions:
            if not only_computes(expression, state, self._is_counted):
                self.unsure(
                    node,
                    "arithmetic evaluates what its variables hold, and they may hold commands",
                    "compute only with numbers and with variables that are set to numbers in the same script",
                )
            for name in assigned(expression):
                self.assign(name, state, source=self.text(node))
            self._inside(expression, state)
            computed(state, expression)

    def _inside(self, expression: Arithmetic | None, state: ShellState) -> None:
        """Commands that are substituted in arithmetic."""
        whole = (CmdSubst, ProcSubst)
        for node in side_effects.everything(expression, but_inside=whole) if expression is not None else []:
            if isinstance(node, CmdSubst | ProcSubst):
                self.substituted(node, state)

    def _is_counted(self, part: CmdSubst) -> bool:
        return simple_commands.prints_a_number(part, self.bodies)

    # --- what words ask for ----------------------------------------------------------------------------------------

    def substituted(self, part: CmdSubst | ProcSubst, state: ShellState) -> None:
        if isinstance(part, CmdSubst) and part.backquotes and not _PLAIN_BACKQUOTES.fullmatch(self.text(part)):
            self.unsure(part, "bash ends backquotes at the next one, whatever is quoted between", "write $(…)")
        outer = self.feed
        if isinstance(part, ProcSubst) and part.op != "<(":
            self.feed = StdinSource(is_unsure=True)
        self._sequence(part.stmts, state.copy())
        self.feed = outer

    def arithmetic(self, part: ArithmExp, state: ShellState) -> None:
        self._computes(part, [part.x], state)

    def parameter(self, part: ParamExp, state: ShellState, *, is_quoted: bool) -> list[Piece]:
        return parameters.pieces(part, state, self, is_quoted=is_quoted)

    def subscript(self, node: Node, index: Arithmetic | None, state: ShellState) -> None:
        """Array subscripts are arithmetic, and evaluated as such."""
        if index is not None and not parameters.is_plain_key(index, state):
            self._computes(node, [index], state)

    def assign(
        self, name: str, state: ShellState, *, source: str, is_exported: bool = False, text: str | None = None
    ) -> bool:
        """Whether the script may set this variable; a doubt where not. `text` is its new value where it is known."""
        obeyed = rules_programs(name) if is_exported else is_obeyed_unexported(name)
        if not obeyed or is_harmless_locale(name, text):
            return True
        variable = "" if rules_bash(name) else name
        why = f"{name} changes what other commands do"
        self.analysis.doubt(source, why, "leave it as it is, or use another name", variable=variable)
        return False

    def unsure(self, node: Node, why: str, instead: str) -> None:
        self.analysis.doubt(self.text(node), why, instead)

    def text(self, node: Node) -> str:
        """The node as it stands in the script."""
        start, end = (node.pos.offset if node.pos else 0), (node.end.offset if node.end else len(self._source))
        return self._source[start:end].decode(errors="replace")

    def source_of(self, node: Word) -> str:
        """The text of a word that is expanded. Raises TooMuch where nesting makes that endless."""
        self._left -= 1
        if self._left < 0:
            raise TooMuch
        return self.text(node)
