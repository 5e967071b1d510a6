"""The guard's verdict on a new command and on a known one, beside the start of the parser that it spares."""

import subprocess
from functools import partial

import anyio

from bench.table import Line, NotMeasured, Scale, compared, seconds
from limpet.core.command import Command, Script
from limpet.guard.policy.bash.parser import Parser, program_of_this_python
from limpet.guard.policy.judge import Judge
from limpet.guard.policy.policy import Policy

SHAPES = (
    "grep -rn 'name{0}' src --include='*.py' | head -5 && echo done",
    'cd src && for f in *.py; do wc -l "$f"; done > /tmp/out{0}.txt 2>&1',
    "git log --oneline -{0} | cat",
    "if [ -f a{0} ]; then cat a{0}; else echo none; fi",
    "find . -name '*{0}*' -exec grep -l foo {{}} +",
    "sed -n '{0},+5p' main.py | sort | uniq -c",
)
POLICY = Policy(
    allowed_commands=frozenset("grep head echo cd wc git cat [ find sed sort uniq".split()),
    allowed_paths=(),
    confirm_destructive=True,
)
FLOOR = "starting shfmt for it, asyncio"
APART = 0.005


async def rows(scale: Scale) -> list[Line]:
    program = program_of_this_python()
    if program is None:
        return [NotMeasured(name="verdict", reason="shfmt is missing; install the package shfmt-py.")]
    count = scale.of(300)
    commands = [Command(what=Script(SHAPES[number % len(SHAPES)].format(number))) for number in range(count)]
    async with Parser() as parser:
        judge = Judge(POLICY, parser=parser)
        await judge.judge(Command(what=Script("true")))
        floor, new = [], []
        for command in commands:
            await anyio.sleep(APART)
            floor.append(await seconds(partial(_started, program, command)) * 1000)
            await anyio.sleep(APART)
            new.append(await seconds(partial(judge.judge, command)) * 1000)
        known = [await seconds(partial(judge.judge, command)) * 1000 for command in commands]
        back_to_back = await _back_to_back(judge, commands)
    return [
        compared(f"verdict, new command, {count} different, 5 ms apart", new, FLOOR, floor, target="<= 3 ms"),
        compared("verdict, new command, back to back", back_to_back, FLOOR, floor, target="<= 3 ms"),
        compared("verdict, known command", known, FLOOR, floor, target="<= 0.05 ms"),
    ]


async def _started(program: str, command: Command) -> None:
    assert isinstance(command.what, Script)
    await anyio.run_process(
        [program, "--to-json", "-ln", "bash"], input=command.what.text.encode(), stderr=subprocess.STDOUT
    )


async def _back_to_back(judge: Judge, commands: list[Command]) -> list[float]:
    times = []
    for command in commands:
        assert isinstance(command.what, Script)
        times.append(await seconds(partial(judge.judge, Command(what=Script(f"{command.what.text} # again")))) * 1000)
    return times
