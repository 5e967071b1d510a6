"""The same scripts, all of them, in a box of Limpet with the policy built in: there no verdict is asked for."""

import itertools
import os
import random
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from limpet.core.command import Command, Exited, Script
from limpet.core.ports import Runtime, Sandbox, SandboxSpec, Walls
from tests.guard.fuzz.allowed import ALLOWED
from tests.guard.fuzz.expand import FORBIDDEN, Source

# busybox holds the forbidden program in itself, and `f` and `g` are functions of the scripts.
WALLS: Mapping[str, Walls] = {
    "none": Walls(),
    "allowed_commands": Walls(programs=ALLOWED - {"busybox", "f", "g"}),
    "blocked_commands": Walls(hidden=frozenset({FORBIDDEN})),
}
SLOWEST = 0.5  # seconds for a script
_AT_ONCE = 4
_BATCH = 200
_BESIDE = "bash dash sh perl make ed script setpriv ionice taskset chrt unshare prlimit run-parts gcc rbash vi".split()
_FILES = {
    "f": b"a\nb c\nrm x\n",
    "x": b"x\n",
    "cmd": b"rm",
    "list": b"x\ny\n",
    "script": b"rm x\n",
    "names": b"rm x\n-c\n",
    "src/x": b"x\n",
}
# It leaves a process behind, which needs no file that it could write and no stream that somebody reads.
_STAND_IN = """
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(void) {
  if (fork() != 0) return 0;
  setsid();
  prctl(PR_SET_NAME, "MARK");
  for (int i = 0; i < 1024; i++) close(i);
  for (;;) pause();
}
"""
_DRIVER = f"""
for script in /mnt/data/.scripts/*; do
  timeout -s KILL {SLOWEST} bash -c "$(< "$script")" < /dev/null > /dev/null 2>&1
done
exit 0
"""
_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A root file system with the stand-in in the place of the forbidden program. `mark` is the name of what it leaves behind."""

    root: Path
    mark: str


def made_image(directory: Path) -> Image | None:
    """An image with copies of this machine's programs; None where there is no compiler for the stand-in."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    programs = [path for name in sorted({*ALLOWED, *_BESIDE}) if (path := Path(f"/usr/bin/{name}")).is_file()]
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    libraries = {word for word in said.split() if word.startswith("/") and not word.endswith(":")}
    for file in [*map(str, programs), *libraries]:
        place = directory / (file if file.startswith("/usr") else f"/usr{file}").lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(file), place)
    for name in ("bin", "lib", "lib64"):
        (directory / name).symlink_to(f"usr/{name}")
    (directory / "etc").mkdir()
    mark = f"ran-{os.getpid() % 100_000}-{next(_numbers)}"
    source = directory / "stand-in.c"
    source.write_text(_STAND_IN.replace("MARK", mark))
    subprocess.run([compiler, "-O1", "-o", directory / "usr/bin" / FORBIDDEN, source], check=True, timeout=30)
    source.unlink()
    return Image(root=directory, mark=mark)


async def behind_walls(
    runtime: Runtime, image: Image, walls: Walls, sources: Iterable[Source], *, seed: int, count: int
) -> list[Sequence[str]]:
    """Runs `count` scripts of each source; returns the batches in which the forbidden program ran."""
    guilty: list[Sequence[str]] = []
    for source in sources:
        chance = random.Random(f"{seed} {source.name} walls")
        for at in range(0, count, _BATCH):
            scripts = [source.script(chance) for _ in range(min(_BATCH, count - at))]
            async with _box(runtime, image, walls) as box:
                await _run(box, scripts)
                if has_run(image):
                    guilty.append(scripts)
    return guilty


@asynccontextmanager
async def _box(runtime: Runtime, image: Image, walls: Walls) -> AsyncIterator[Sandbox]:
    box = await runtime.create(SandboxSpec(name=f"fuzz-{os.getpid()}-{next(_numbers)}", image=image.root, walls=walls))
    try:
        for name, content in _FILES.items():
            await box.files.write(name, content)
        yield box
    finally:
        with anyio.CancelScope(shield=True):
            await box.destroy()


async def _run(box: Sandbox, scripts: Sequence[str]) -> None:
    """All of them as one command; each as a command of its own where one of them ended that."""
    for number, script in enumerate(scripts):
        await box.files.write(f".scripts/{number:03}", script.encode())
    process = await box.start(Command(what=Script(_DRIVER), timeout=2 * SLOWEST * len(scripts)), "all")
    if await process.wait() != Exited(0):
        await _run_apart(box, scripts)


async def _run_apart(box: Sandbox, scripts: Sequence[str]) -> None:
    waiting = iter(enumerate(scripts))

    async def work() -> None:
        for number, script in waiting:
            process = await box.start(Command(what=Script(script), timeout=SLOWEST), f"script-{number}")
            await process.wait()

    async with anyio.create_task_group() as tasks:
        for _ in range(_AT_ONCE):
            tasks.start_soon(work)


def has_run(image: Image) -> bool:
    """Whether the stand-in was started in a box that is still there."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "comm").read_text().strip() == image.mark:
                    return True
            except OSError:
                continue
    return False
