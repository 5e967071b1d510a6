"""Root file systems small enough to be made by a test."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def image_without_python(directory: Path) -> Path:
    """A root file system with bash, ls and cat, their libraries, and no Python."""
    return _image(directory, ["/usr/bin/bash", "/usr/bin/ls", "/usr/bin/cat"])


def image_without_bash(directory: Path) -> Path:
    """The same with dash as its `sh`, and no bash."""
    made = _image(directory, ["/usr/bin/dash", "/usr/bin/ls", "/usr/bin/cat"])
    (made / "usr/bin/sh").symlink_to("dash")
    return made


def image_of_busybox(directory: Path) -> Path:
    """What alpine is: one static program under many names, no library. Skips where this host has no busybox."""
    busybox = shutil.which("busybox")
    if busybox is None or "statically linked" not in _kind(busybox):
        pytest.skip("needs a static busybox: apt-get install busybox-static")
    (directory / "bin").mkdir(parents=True)
    shutil.copy(busybox, directory / "bin/busybox")
    for name in ("sh", "ls", "cat", "echo", "rm", "id", "sleep"):
        (directory / "bin" / name).symlink_to("/bin/busybox")
    (directory / "etc").mkdir()
    (directory / "etc/os-release").write_text("ID=alpine\n")
    return directory


def _kind(program: str) -> str:
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    return "statically linked" if "not a dynamic executable" in done.stderr + done.stdout else done.stdout


def _image(directory: Path, programs: list[str]) -> Path:
    found = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    files = {word for word in found.split() if word.startswith("/") and not word.endswith(":")} | set(programs)
    for file in files:
        place = directory / os.path.normpath(f"usr{file}" if not file.startswith("/usr") else file.lstrip("/"))
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(file), place)
    for name in ("bin", "lib", "lib64"):
        (directory / name).symlink_to(f"usr/{name}")
    (directory / "etc").mkdir()
    (directory / "etc/issue").write_text("of the image\n")
    (directory / "etc/passwd").write_text("somebody:x:7:7::/:/bin/sh\n")
    (directory / "opt").mkdir()
    return directory
