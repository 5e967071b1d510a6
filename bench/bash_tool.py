"""The tool `Bash` beside the workspace's own `run`, both under seed 02's configuration, which judges, screens and records."""

from functools import partial

import anyio

from bench.table import Line, Scale, by_turns, compared
from limpet import open_workspace
from limpet.tools.bash import BashTool, shell_config_from

APART = 0.005
FLOOR = "the workspace's run of true, judged and screened"


async def rows(scale: Scale) -> list[Line]:
    settings = shell_config_from({"constraints": {"blocked_commands": ["shutdown"]}})
    async with open_workspace("bench", runtime=scale.runtime, home=scale.home) as box:
        guarded = box.guarded(policy=settings.policy, redaction=settings.redaction)
        async with BashTool(guarded, config=settings.bash) as tool:
            plain = partial(tool.call, {"command": "true"})
            asked = partial(tool.call, {"command": "cd . && true"})
            floor = partial(guarded.run, "true")
            times = await by_turns(plain, asked, floor, n=scale.of(300), pause=partial(anyio.sleep, APART))
    return [
        compared("Bash of `true`", times[0], FLOOR, times[2]),
        compared("Bash of `cd . && true`, which asks where the shell ended", times[1], FLOOR, times[2]),
    ]
