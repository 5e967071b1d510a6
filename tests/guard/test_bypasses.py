"""Every known way around a list of allowed commands ends at the guard, and says which construct it was."""

import pytest

from limpet.core.command import Argv, Command, Script
from limpet.guard.policy.bash.parser import Parser
from limpet.guard.policy.judge import Judge
from limpet.guard.policy.policy import Policy
from limpet.guard.policy.verdict import Allowed, Denied
from tests.guard.bypasses import BYPASSES, READERS
from tests.guard.bypasses_of_parts import BUILTINS, OF_PARTS


@pytest.mark.anyio
async def test_no_way_around_the_allowed_commands_is_allowed(parser: Parser) -> None:
    for text in BYPASSES:
        verdict = await Judge(Policy(allowed_commands=READERS), parser=parser).judge(Command(what=Script(text)))

        assert isinstance(verdict, Denied), text
        assert verdict.rule == "allowed_commands", text
        assert verdict.reason.endswith("."), text
        assert verdict.remedy.endswith("."), text


@pytest.mark.anyio
async def test_no_part_of_the_shell_is_a_way_around_them(parser: Parser) -> None:
    judge = Judge(Policy(allowed_commands=READERS | BUILTINS), parser=parser)

    assert [text for text in OF_PARTS if await judge.judge(Command(what=Script(text))) == Allowed()] == []


RUNNING_OTHERS = [
    "rsync -e 'rm x' a b",
    "rsync --rsh='rm x' a b",
    "rsync $X a b",
    "split --filter='rm x' f",
    "zip -TT 'rm x' a b",
    "man -P 'rm x' ls",
    "scp -S ./x a b:",
    "scp -oProxyCommand='rm x' a b:",
    "fd -x rm",
    "sqlite3 a '.shell rm x'",
    "psql -c '\\! rm x'",
    "mysql -e '\\! rm x'",
    "ip netns exec a rm x",
    'gawk \'BEGIN { SYMTAB["ARGV"][1] = "/etc/passwd" }\' x',
    "tar --transform='s,^,/etc/,' -xf a",
]


@pytest.mark.anyio
async def test_a_program_that_is_allowed_runs_no_other_by_its_options(parser: Parser) -> None:
    for text in RUNNING_OTHERS:
        policy = Policy(allowed_commands=frozenset({text.split()[0]}))

        verdict = await Judge(policy, parser=parser).judge(Command(what=Script(text)))

        assert isinstance(verdict, Denied), text
        assert verdict.rule == "allowed_commands", text


PLAIN = [
    "rsync -a --delete a/ b/",
    "split -l 10 f",
    "zip -r a b",
    "scp a b:",
    "sqlite3 a 'select 1'",
    "psql -c 'select 1'",
]


@pytest.mark.anyio
async def test_an_allowed_program_in_its_plain_form_passes(parser: Parser) -> None:
    for text in PLAIN:
        policy = Policy(allowed_commands=frozenset({text.split()[0]}))

        assert isinstance(await Judge(policy, parser=parser).judge(Command(what=Script(text))), Allowed), text


MISREAD: list[Script | Argv] = [
    Script("sh -c '((a | rm x))'"),
    Script("env sh -ec '((a | rm x))'"),
    Script("dash -c \"alias ls='rm x'\nls\""),
    Script("sh <<'E'\n((a | rm x))\nE"),
    Script("flock f -c '((a | rm x))'"),
    Argv(("sh", "-c", "((a | rm x))")),
    Argv(("busybox", "ash", "-c", "((a | rm x))")),
]


@pytest.mark.anyio
async def test_what_a_posix_shell_reads_otherwise_is_refused_where_it_is_given_to_one(parser: Parser) -> None:
    judge = Judge(Policy(blocked_commands=frozenset({"rm"})), parser=parser)

    assert [what for what in MISREAD if not isinstance(await judge.judge(Command(what=what)), Denied)] == []
    for text in ("sh -c 'ls | wc -l'", "bash -c '((1 + 1))'", "sh -c 'echo $((1 + 1))'", "((i++))"):
        assert isinstance(await judge.judge(Command(what=Script(text))), Allowed), text
