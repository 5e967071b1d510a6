"""Runs scripts in real bash, one after the other, as the first process of a box: what it kills is all that is in there.

Reads lines of JSON, each a list of scripts; answers each with a list of `{"ran": …, "changed": […], "error": …}`. Standard library
only, for the system's python3. `ran`: the forbidden program left its mark. `changed`: files of the working directory that are other
than before. `error`: whether bash called it no script.
"""

from __future__ import annotations  # the box's own python3 may be older than ours

import json
import os
import shutil
import signal
import subprocess
import sys
import time

WORK = "/mnt/data"
HOME = "/home/agent"
MARK = "/mark"
OUTPUT = "/out/text"
LONGEST = 1.0  # seconds for a script
LEFT = 0.4  # and for what it leaves behind
FILES = {
    "f": "a\nb c\nrm x\n",
    "x": "x\n",
    "y": "y\n",
    "cmd": "rm",
    "list": "x\ny\n",
    "script": "rm x\n",
    "names": "rm x\n-c\n",
    "src/a.py": "a = 1\n",
    "src/x": "x\n",
    "Makefile": "all:\n\trm x\n",
}
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": HOME,
    "USER": "agent",
    "LANG": "C.UTF-8",
    "SHELL": "/bin/bash",
}


def main() -> None:
    assert os.getpid() == 1, "this kills every process that it sees: it must be the first of a box of its own"
    repository = _repository()
    for line in sys.stdin:
        sys.stdout.write(json.dumps([_run(text, repository) for text in json.loads(line)]) + "\n")
        sys.stdout.flush()


def _run(text: str, repository: str | None) -> dict[str, object]:
    _lay_out(repository if "git" in text else None)
    before = _files()
    with open(OUTPUT, "wb") as output:
        child = subprocess.Popen(
            ["/bin/bash", "--noprofile", "--norc", "-c", text],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=WORK, env=ENVIRONMENT, start_new_session=True,
        )  # fmt: skip
        is_late = False
        try:
            child.wait(LONGEST)
            _wait_for_rest()
        except subprocess.TimeoutExpired:
            is_late = True
    _end_all()
    child.poll()
    ran = bool(os.listdir(MARK))
    after = _files()
    changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    return {"ran": ran, "changed": changed, "late": is_late, "error": _is_no_script()}


def _wait_for_rest() -> None:
    """What the script left in the background comes to this process, the first one, when its parent ends."""
    until = time.monotonic() + LEFT
    while time.monotonic() < until:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not ended:
            time.sleep(0.005)


def _end_all() -> None:
    for _ in range(50):
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.001)
        except ChildProcessError:
            return


def _is_no_script() -> bool:
    with open(OUTPUT, "rb") as output:
        said = output.read(4096)
    return b"syntax error" in said or b"unexpected EOF" in said


def _lay_out(repository: str | None) -> None:
    for directory in (WORK, HOME, MARK, "/tmp"):
        for name in os.listdir(directory):
            _clear(os.path.join(directory, name))
    os.mkdir(os.path.join(WORK, "src"))
    for name, text in FILES.items():
        with open(os.path.join(WORK, name), "w") as file:
            file.write(text)
    if repository is not None:
        shutil.copytree(repository, os.path.join(WORK, ".git"))


def _clear(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        os.chmod(path, 0o755)
        shutil.rmtree(path, ignore_errors=True)
    else:
        os.unlink(path)


def _files() -> dict[str, list[int]]:
    """Each file by its path, with what tells whether it was changed."""
    found = {}
    for directory, names, files in os.walk(WORK):
        if ".git" in names and directory == WORK:
            names.remove(".git")
        for name in [*names, *files]:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            found[path] = [
                status.st_mode,
                status.st_size if name in files else 0,
                status.st_mtime_ns if name in files else 0,
            ]
    return found


def _repository() -> str | None:
    """A repository with one commit, to be copied; None where git is not there."""
    if shutil.which("git", path=ENVIRONMENT["PATH"]) is None:
        return None
    place = "/out/repository"
    os.makedirs(place)
    with open(os.path.join(place, "f"), "w") as file:
        file.write("a\n")
    names = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q", "--template="], ["add", "f"], [*names, "commit", "-qm", "a"]):
        subprocess.run(["git", *words], cwd=place, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    return os.path.join(place, ".git")


if __name__ == "__main__":
    main()
