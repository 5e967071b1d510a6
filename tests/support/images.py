"""Root file systems small enough to be made by a test."""

import os
import shutil
import subprocess
from pathlib import Path


def image_without_python(directory: Path) -> Path:
    """A root file system with bash, ls and cat, their libraries, and no Python."""
    programs = ["/usr/bin/bash", "/usr/bin/ls", "/usr/bin/cat"]
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
