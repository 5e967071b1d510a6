"""Hosts that refuse user namespaces, made for one program each: what it says would mend it, and that nothing stands in.

`limpet check` runs where the kernel refuses as it does in a default Docker container (the same calls, refused by a filter), under
a limit of no user namespaces, and on a host whose settings refuse them.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.users import NOBODY

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a host that refuses")

# Reads what shall be refused from its argument, arranges that for itself, becomes the user, and turns into the rest of its arguments.
_HOST = """
import ctypes, errno, json, os, subprocess, sys
asked, program = json.loads(sys.argv[1]), sys.argv[2:]
libc = ctypes.CDLL(None, use_errno=True)
NEW_MOUNTS, NEW_USER, NEW_PIDS = 0x20000, 0x10000000, 0x20000000

def unshare(flags):
    assert libc.unshare(flags) == 0, os.strerror(ctypes.get_errno())

def mount(*words):
    subprocess.run(["mount", *words], check=True)

def go_on_in_child():
    child = os.fork()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

if asked["none_left"]:
    told, tell = os.pipe()
    done, say = os.pipe()
    child = os.fork()
    if child:
        os.read(told, 1)
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{child}/{name}", "w") as file:
                file.write("0 0 4294967295")
        os.write(say, b"x")
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    unshare(NEW_USER)
    os.write(tell, b"x")
    os.read(done, 1)
    unshare(NEW_MOUNTS | NEW_PIDS)
    go_on_in_child()
    mount("-t", "proc", "proc", "/proc")
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")
else:
    unshare(NEW_MOUNTS)
    mount("--make-rprivate", "/")
if asked["marked"]:
    mount("-t", "tmpfs", "none", "/run")
    open("/run/.containerenv", "w").close()
if asked["kernel"]:
    kept = {name: open(f"/proc/sys/kernel/{name}").read() for name in ("overflowuid", "overflowgid", "cap_last_cap")}
    mount("-t", "tmpfs", "none", "/proc/sys/kernel")
    for name, value in {**kept, **asked["kernel"]}.items():
        with open(f"/proc/sys/kernel/{name}", "w") as file:
            file.write(value)
if asked["filtered"]:
    import pyseccomp
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in ("mount", "umount2", "pivot_root", "setns", "unshare", "move_mount", "fsopen", "open_tree"):
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), name)
    for bit in range(32):
        if 0x7E020000 & (1 << bit):
            rules.add_rule(pyseccomp.ERRNO(errno.EPERM), "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, 1 << bit, 1 << bit))
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    rules.load()
if asked["user"]:
    os.setgroups([])
    os.setresgid(*[asked["user"]] * 3)
    os.setresuid(*[asked["user"]] * 3)
os.execvp(program[0], program)
"""
_LIMPET = Path(sys.executable).with_name("limpet")
_FLAGS = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
_WHO = pytest.mark.parametrize("user", [None, NOBODY], ids=["root", "user"])


def _on_a_host(home: Path, program: list[str], *, user: int | None, **refused: Any) -> subprocess.CompletedProcess[str]:
    os.chown(home, user or 0, user or 0)
    asked = {"none_left": False, "marked": False, "kernel": {}, "filtered": False, "user": user, **refused}
    return subprocess.run(
        [sys.executable, "-c", _HOST, json.dumps(asked), str(_LIMPET), *program],
        capture_output=True,
        text=True,
        env={**os.environ, "LIMPET_HOME": str(home), "HOME": "/nonexistent"},
        check=False,
        timeout=60,
    )


def _checked(home: Path, **host: Any) -> dict[str, Any]:
    done = _on_a_host(home, ["check", "bubblewrap", "--json"], **host)
    assert done.returncode == 1, done.stdout + done.stderr
    (found,) = json.loads(done.stdout)["runtimes"]
    assert found["works"] is False
    return dict(found)


@_WHO
def test_a_default_docker_container_is_refused_with_the_flags_that_mend_it(home: Path, user: int | None) -> None:
    found = _checked(home, user=user, filtered=True, marked=True)

    assert re.search("bwrap: .*(namespace|permitted)", found["detail"])
    assert _FLAGS in found["remedy"]


@_WHO
def test_a_container_without_a_mark_is_known_by_its_filter(home: Path, user: int | None) -> None:
    assert _FLAGS in _checked(home, user=user, filtered=True)["remedy"]


@_WHO
def test_where_no_user_namespace_is_left_the_setting_is_named(home: Path, user: int | None) -> None:
    assert _checked(home, user=user, none_left=True)["remedy"] == "sysctl -w user.max_user_namespaces=10000"


def test_where_only_root_may_make_them_the_setting_is_named(home: Path) -> None:
    found = _checked(home, user=NOBODY, filtered=True, kernel={"unprivileged_userns_clone": "0"})

    assert found["remedy"] == "sysctl -w kernel.unprivileged_userns_clone=1"


@_WHO
def test_where_apparmor_restricts_them_the_profile_is_printed(home: Path, user: int | None) -> None:
    found = _checked(home, user=user, filtered=True, kernel={"apparmor_restrict_unprivileged_userns": "1"})

    assert "profile bwrap /usr/bin/bwrap flags=(unconfined) {\\n  userns,\\n}" in found["remedy"]
    assert found["remedy"].endswith("sudo apparmor_parser -r /etc/apparmor.d/bwrap")


@pytest.mark.parametrize("program", [["serve", "--port", "0"], ["run", "--", "true"]], ids=["serve", "run"])
def test_neither_the_gateway_nor_a_run_begins_there_and_both_name_the_flags(home: Path, program: list[str]) -> None:
    done = _on_a_host(home, program, user=NOBODY, filtered=True, marked=True)

    assert done.returncode != 0
    assert _FLAGS in done.stdout + done.stderr
