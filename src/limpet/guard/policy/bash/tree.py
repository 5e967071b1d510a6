"""The parse tree of shell text as `shfmt --to-json` writes it: wire shapes only, and complete. Decides nothing.

Unknown fields and unknown node types are refused by the decoder, so a grammar that this file does not know is never judged.
Offsets count bytes of the UTF-8 text.
"""

import msgspec


class Position(msgspec.Struct, forbid_unknown_fields=True, rename="pascal", frozen=True, gc=False):
    """A place in the text; `offset` in bytes."""

    offset: int
    line: int = 0
    col: int = 0


class Node(msgspec.Struct, forbid_unknown_fields=True, rename="pascal", tag_field="Type", kw_only=True):
    """What every node has."""

    pos: Position | None = None
    end: Position | None = None


class Comment(Node, tag="Comment"):
    hash: Position | None = None
    text: str = ""


# --- words ---------------------------------------------------------------------------------------------------------


class Lit(Node, tag="Lit"):
    value: str = ""
    value_pos: Position | None = None
    value_end: Position | None = None


class SglQuoted(Node, tag="SglQuoted"):
    value: str = ""
    dollar: bool = False
    left: Position | None = None
    right: Position | None = None


class DblQuoted(Node, tag="DblQuoted"):
    parts: "list[WordPart]" = []
    dollar: bool = False
    left: Position | None = None
    right: Position | None = None


class CmdSubst(Node, tag="CmdSubst"):
    stmts: "list[Stmt]" = []
    last: list[Comment] = []
    backquotes: bool = False
    temp_file: bool = False
    reply_var: bool = False
    left: Position | None = None
    right: Position | None = None


class ProcSubst(Node, tag="ProcSubst"):
    op: str = ""
    stmts: "list[Stmt]" = []
    last: list[Comment] = []
    op_pos: Position | None = None
    rparen: Position | None = None


class ExtGlob(Node, tag="ExtGlob"):
    op: str = ""
    pattern: Lit | None = None
    op_pos: Position | None = None


class Word(Node, tag="Word"):
    parts: "list[WordPart]" = []


class Slice(Node, tag="Slice"):
    offset: "Arithmetic | None" = None
    length: "Arithmetic | None" = None


class Replace(Node, tag="Replace"):
    all: bool = False
    orig: Word | None = None
    with_: Word | None = msgspec.field(default=None, name="With")


class Expansion(Node, tag="Expansion"):
    op: str = ""
    word: Word | None = None


class ParamExp(Node, tag="ParamExp"):
    short: bool = False
    excl: bool = False
    length: bool = False
    param: Lit | None = None
    index: "Arithmetic | None" = None
    slice: Slice | None = None
    repl: Replace | None = None
    names: str = ""
    exp: Expansion | None = None
    dollar: Position | None = None
    rbrace: Position | None = None


# --- arithmetic ----------------------------------------------------------------------------------------------------


class ArithmExp(Node, tag="ArithmExp"):
    x: "Arithmetic | None" = None
    bracket: bool = False
    left: Position | None = None
    right: Position | None = None


class BinaryArithm(Node, tag="BinaryArithm"):
    op: str
    x: "Arithmetic"
    y: "Arithmetic"
    op_pos: Position | None = None


class UnaryArithm(Node, tag="UnaryArithm"):
    op: str
    x: "Arithmetic"
    post: bool = False
    op_pos: Position | None = None


class ParenArithm(Node, tag="ParenArithm"):
    x: "Arithmetic"
    lparen: Position | None = None
    rparen: Position | None = None


WordPart = Lit | SglQuoted | DblQuoted | ParamExp | CmdSubst | ArithmExp | ProcSubst | ExtGlob
Arithmetic = Word | BinaryArithm | UnaryArithm | ParenArithm

# --- assignments and redirections ----------------------------------------------------------------------------------


class ArrayElem(Node, tag="ArrayElem"):
    index: Arithmetic | None = None
    value: Word | None = None
    comments: list[Comment] = []


class ArrayExpr(Node, tag="ArrayExpr"):
    elems: list[ArrayElem] = []
    last: list[Comment] = []
    lparen: Position | None = None
    rparen: Position | None = None


class Assign(Node, tag="Assign"):
    append: bool = False
    naked: bool = False
    name: Lit | None = None
    index: Arithmetic | None = None
    value: Word | None = None
    array: ArrayExpr | None = None


class Redirect(Node, tag="Redirect"):
    op: str
    n: Lit | None = None
    word: Word | None = None
    hdoc: Word | None = None
    op_pos: Position | None = None


# --- conditions in [[ ]] -------------------------------------------------------------------------------------------


class BinaryTest(Node, tag="BinaryTest"):
    op: str
    x: "Test"
    y: "Test"
    op_pos: Position | None = None


class UnaryTest(Node, tag="UnaryTest"):
    op: str
    x: "Test"
    op_pos: Position | None = None


class ParenTest(Node, tag="ParenTest"):
    x: "Test"
    lparen: Position | None = None
    rparen: Position | None = None


Test = Word | BinaryTest | UnaryTest | ParenTest

# --- commands ------------------------------------------------------------------------------------------------------


class CallExpr(Node, tag="CallExpr"):
    assigns: list[Assign] = []
    args: list[Word] = []


class BinaryCmd(Node, tag="BinaryCmd"):
    op: str
    x: "Stmt"
    y: "Stmt"
    op_pos: Position | None = None


class Subshell(Node, tag="Subshell"):
    stmts: "list[Stmt]" = []
    last: list[Comment] = []
    lparen: Position | None = None
    rparen: Position | None = None


class Block(Node, tag="Block"):
    stmts: "list[Stmt]" = []
    last: list[Comment] = []
    lbrace: Position | None = None
    rbrace: Position | None = None


class IfClause(Node, tag="IfClause"):
    position: Position | None = None
    then_pos: Position | None = None
    fi_pos: Position | None = None
    cond: "list[Stmt]" = []
    cond_last: list[Comment] = []
    then: "list[Stmt]" = []
    then_last: list[Comment] = []
    else_: "IfClause | None" = msgspec.field(default=None, name="Else")
    last: list[Comment] = []


class WhileClause(Node, tag="WhileClause"):
    while_pos: Position | None = None
    do_pos: Position | None = None
    done_pos: Position | None = None
    until: bool = False
    cond: "list[Stmt]" = []
    cond_last: list[Comment] = []
    do: "list[Stmt]" = []
    do_last: list[Comment] = []


class WordIter(Node, tag="WordIter"):
    name: Lit
    in_pos: Position | None = None
    items: list[Word] = []


class CStyleLoop(Node, tag="CStyleLoop"):
    lparen: Position | None = None
    rparen: Position | None = None
    init: Arithmetic | None = None
    cond: Arithmetic | None = None
    post: Arithmetic | None = None


class ForClause(Node, tag="ForClause"):
    loop: WordIter | CStyleLoop
    for_pos: Position | None = None
    do_pos: Position | None = None
    done_pos: Position | None = None
    select: bool = False
    braces: bool = False
    do: "list[Stmt]" = []
    do_last: list[Comment] = []


class CaseItem(Node, tag="CaseItem"):
    op: str = ""
    op_pos: Position | None = None
    comments: list[Comment] = []
    patterns: list[Word] = []
    stmts: "list[Stmt]" = []
    last: list[Comment] = []


class CaseClause(Node, tag="CaseClause"):
    word: Word
    case: Position | None = None
    in_: Position | None = msgspec.field(default=None, name="In")
    esac: Position | None = None
    items: list[CaseItem] = []
    last: list[Comment] = []


class FuncDecl(Node, tag="FuncDecl"):
    name: Lit
    body: "Stmt"
    position: Position | None = None
    rsrv_word: bool = False
    parens: bool = False


class ArithmCmd(Node, tag="ArithmCmd"):
    x: Arithmetic | None = None
    left: Position | None = None
    right: Position | None = None


class TestClause(Node, tag="TestClause"):
    __test__ = False
    x: Test
    left: Position | None = None
    right: Position | None = None


class DeclClause(Node, tag="DeclClause"):
    variant: Lit
    args: list[Assign] = []


class LetClause(Node, tag="LetClause"):
    exprs: list[Arithmetic] = []
    let: Position | None = None


class TimeClause(Node, tag="TimeClause"):
    posix_format: bool = False
    stmt: "Stmt | None" = None
    time: Position | None = None


class CoprocClause(Node, tag="CoprocClause"):
    name: Word | None = None
    stmt: "Stmt | None" = None
    coproc: Position | None = None


Simple = CallExpr | DeclClause | LetClause | ArithmCmd | TestClause
Compound = (
    Subshell
    | Block
    | IfClause
    | WhileClause
    | ForClause
    | CaseClause
    | FuncDecl
    | BinaryCmd
    | TimeClause
    | CoprocClause
)
Cmd = Simple | Compound


class Stmt(Node, tag="Stmt"):
    cmd: Cmd | None = None
    comments: list[Comment] = []
    position: Position | None = None
    semicolon: Position | None = None
    negated: bool = False
    background: bool = False
    redirs: list[Redirect] = []


class File(Node, tag="File"):
    stmts: list[Stmt] = []
    last: list[Comment] = []
    name: str = ""


_DECODER = msgspec.json.Decoder(File)


def decode(data: bytes) -> File:
    """The tree in shfmt's JSON. Raises msgspec.ValidationError for a node or field unknown here, and RecursionError."""
    return _DECODER.decode(data)
