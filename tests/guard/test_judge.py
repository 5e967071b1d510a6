"""How rules meet: what each policy asks for, what a refusal says, and that no rule costs no parse."""

import subprocess

import pytest

from limpet.core.command import Argv, Command, Script
from limpet.guard.policy.bash.parser import Parser
from limpet.guard.policy.bash.simple_commands import is_builtin
from limpet.guard.policy.judge import Judge
from limpet.guard.policy.policy import Policy
from limpet.guard.policy.verdict import Allowed, Denied
from tests.guard.verdicts import verdict

WRITING = [
    *("rm a", "rmdir a", "mv a b", "cp a b", "ln -s a b", "mkdir a", "mktemp", "touch a", "truncate -s0 a", "tee a", "install a b"),
    *("dd if=a of=b", "shred a", "chmod +x a", "chown me a", "chgrp g a", "chattr +i a", "setfacl -m x a", "mkfs a", "mount a b"),
    *("umount a", "kill 1", "pkill a", "killall a", "useradd a", "passwd", "vi a", "vim a", "nano a", "ed a", "ex a", "emacs a"),
    *("sed -i s/a/b/ f", "sed -n -i p f", "sed --in-place s/a/b/ f", "sed --in-pl p f", "sed -i.bak p f", "sed -ni p f", "sed 'w x' f"),
    *("perl -i -pe x f", "sort -o a b", "sort --output=a b", "sort --out a b", "sort -no a b", "sort -uoa b", "find . -delete"),
    *("find . -exec rm {} +", "find . -fprint x", "find . -fls x", "find . -fprintf x y", "git add .", "git commit", "git status"),
    *("apt install x", "pip install x", "npm i", "tar xf a", "tar cf a b", "unzip a", "zip a b", "curl -o a u", "curl u", "wget u"),
    *("python3 x.py", "node x", "bash x.sh", "sh -c ls", "echo x | sh", "xargs rm", "env rm a", "sudo ls", "timeout 5 rm a", "nohup rm a"),
    *("echo x > a", "echo x >> a", "echo x >| a", "echo x &> a", "echo x 2> a", "ls > $X", "cat <> a", ": > a", "> a", "{ ls; } > a"),
    *("uniq a b", "xxd a b", "xxd -r a b", "tree -o x", "date -s x", "date 01010101", "hostname x", "base64 -o a b", "make", "./x"),
    *("less a", "vi", "env time -o a ls", "\\time --output=a ls", "find . -exec time -ao a ls ';'", "xargs -I% uniq f %", "let v=1>a"),
    *("awk '{print > \"x\"}' f", "awk -i inplace 1 f", "gawk -o x 1 f", "rg --pre x y", "file -C -m x", "man ls", "dmesg -c", "crontab x"),
    *("f() { rm a; }; f", "bash -c 'rm a'", "eval 'rm a'", "trap 'rm a' EXIT", "ls $(rm a)", "unknown", "$X", "jq . a | tee b", "source a"),
]  # fmt: skip


@pytest.mark.anyio
async def test_under_readonly_nothing_that_may_write_runs(parser: Parser) -> None:
    for text in WRITING:
        denied = await verdict(parser, text, Policy(readonly=True, blocks_platform_defaults=False))

        assert isinstance(denied, Denied), text
        assert denied.rule == "readonly", text


@pytest.mark.anyio
async def test_an_interpreter_that_the_allowlist_names_runs_under_readonly_and_confinement(parser: Parser) -> None:
    policy = Policy(readonly=True, allowed_paths=(), allowed_commands=frozenset({"python3", "ls", "rm", "git"}))

    assert await verdict(parser, "python3 x.py; ls", policy) == Allowed()
    assert await verdict(parser, "git status; git log -3", policy) == Allowed()
    for text in ("rm a", "perl x", "git commit -m x", "python3 > x", "cat a"):
        assert isinstance(await verdict(parser, text, policy), Denied), text


@pytest.mark.anyio
async def test_an_empty_allowlist_lets_nothing_run(parser: Parser) -> None:
    policy = Policy(allowed_commands=frozenset())

    for text in ("ls", "echo a", "true", "cd a", "x=$(ls)"):
        assert isinstance(await verdict(parser, text, policy), Denied), text
    assert await verdict(parser, "x=1", policy) == Allowed()


@pytest.mark.anyio
async def test_the_refusal_names_the_command_and_what_is_allowed(parser: Parser) -> None:
    denied = await verdict(parser, "ls; curl x", Policy(allowed_commands=frozenset({"ls", "cat"})))

    assert denied == Denied(
        rule="allowed_commands", reason="`curl` is not among the allowed commands.", remedy="Allowed are: cat, ls."
    )


@pytest.mark.anyio
async def test_what_cannot_be_resolved_is_named_as_written_with_what_to_write_instead(parser: Parser) -> None:
    denied = await verdict(parser, 'ls; "$TOOL" -x', Policy(allowed_commands=frozenset({"ls"})))

    assert denied == Denied(
        rule="allowed_commands",
        reason='`"$TOOL"` can\'t be judged: the name of the command depends on something else.',
        remedy="Write the name out.",
    )


@pytest.mark.anyio
async def test_what_is_no_bash_is_refused_only_where_a_rule_must_read_it(parser: Parser) -> None:
    denied = await verdict(parser, "ls (", Policy(readonly=True))

    assert isinstance(denied, Denied)
    assert denied.reason.startswith("The command is not bash: line 1: ")
    assert await verdict(parser, "ls (", Policy()) == Allowed()


@pytest.mark.anyio
async def test_without_rules_nothing_is_parsed() -> None:
    closed = Parser()

    judge = Judge(Policy(blocks_platform_defaults=False), parser=closed)
    assert await judge.judge(Command(what=Script("rm -rf / ((("))) == Allowed()


@pytest.mark.anyio
async def test_without_a_parser_a_strict_policy_refuses() -> None:
    closed = Parser()

    denied = await Judge(Policy(readonly=True), parser=closed).judge(Command(what=Script("ls")))
    assert isinstance(denied, Denied)
    assert "shfmt-py" in denied.reason


@pytest.mark.anyio
async def test_an_argv_is_one_command_whose_words_are_as_they_are(parser: Parser) -> None:
    judge = Judge(Policy(allowed_commands=frozenset({"ls", "echo"})), parser=parser)

    for args in (
        ("echo", "$(rm x)", "; rm x"),
        ("/bin/ls",),
        ("bash", "-c", "ls; echo a"),
        ("bash", "-c", "echo $1", "a", "b"),
    ):
        assert await judge.judge(Command(what=Argv(args))) == Allowed(), args
    for refused in (
        ("rm", "x"),
        ("bash", "-c", "rm x"),
        ("bash", "-lc", "ls"),
        ("sh", "-c", "ls"),
        ("bash", "x"),
        ("ls;id",),
        ("eval", "ls"),
    ):
        assert isinstance(await judge.judge(Command(what=Argv(refused))), Denied), refused


@pytest.mark.anyio
async def test_a_variable_that_the_policy_opens_may_be_set(parser: Parser) -> None:
    text = "PYTHONPATH=src python3 x.py"
    allowed = frozenset({"python3"})

    assert isinstance(await verdict(parser, text, Policy(allowed_commands=allowed)), Denied)
    assert (
        await verdict(parser, text, Policy(allowed_commands=allowed, environment=frozenset({"PYTHONPATH"})))
        == Allowed()
    )


def test_every_builtin_of_bash_stands_in_a_table() -> None:
    listed = subprocess.run(["bash", "-c", "compgen -b; compgen -k"], capture_output=True, text=True, check=True)

    names = set(listed.stdout.split()) - {"{", "}", "[[", "]]", "!"}
    assert sorted(name for name in names if not is_builtin(name)) == []
