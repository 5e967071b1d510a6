"""A box from nothing to its first output, beside bare bubblewrap and a bare Python."""

import shlex
import shutil
from functools import partial

from bench import bare
from bench.table import Line, NotMeasured, Scale, by_turns, compared
from limpet import open_workspace

BWRAP = shlex.split(
    "--unshare-all --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib "
    "--symlink usr/lib64 /lib64 --proc /proc --dev /dev"
)


async def rows(scale: Scale) -> list[Line]:
    name = f"boot to first output, {scale.runtime}"
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return [NotMeasured(name=name, reason="There is no bwrap on this host to stand beside.")]
    python = shutil.which("python3", path="/usr/bin") or "python3"
    ours, bubblewrap, interpreter = await by_turns(
        partial(_first_output, scale),
        partial(bare.run, bwrap, *BWRAP, "/bin/true"),
        partial(bare.run, python, "-I", "-S", "-c", "pass"),
        n=scale.of(40),
    )
    return [
        compared(name, ours, "bare bwrap … true", bubblewrap),
        compared(name, ours, f"bare {python} -I -S -c pass", interpreter),
    ]


async def _first_output(scale: Scale) -> None:
    """The end of the box is measured too: a boot that leaves its work to the end would not be one."""
    async with open_workspace("bench", runtime=scale.runtime, home=scale.home) as box:
        result = await box.run("echo")
        if result.stdout != b"\n":
            raise RuntimeError(f"The box printed {result.stdout!r} and {result.stderr!r}.")
