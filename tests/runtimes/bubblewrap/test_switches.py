"""Settings of the kernel and a profile of AppArmor that really refuse boxes: what `limpet check` then says really mends it.

They hold for a whole machine, so that they are changed in an emulated one alone: `tests/emulated/run bash tests/emulated/refusals`.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from tests.support.users import NOBODY

pytestmark = [
    pytest.mark.skipif(
        "limpet.emulated" not in Path("/proc/cmdline").read_text(),
        reason="they would hold for the whole of this machine",
    ),
    pytest.mark.timeout(600),
]
needs_apparmor = pytest.mark.skipif(
    which("apparmor_parser") is None or not Path("/etc/apparmor.d/abi/4.0").exists(),
    reason="AppArmor 4.0 or newer is not installed",
)

_WHO = pytest.mark.parametrize("user", [None, NOBODY], ids=["root", "user"])
_LOADED = Path("/etc/apparmor.d/bwrap")
# All that a program may ask of AppArmor, but user namespaces; other programs are under it too, unless they have a profile.
_PROFILE = """abi <abi/4.0>,
include <tunables/global>
profile everything-else /nowhere flags=(attach_disconnected) {
  /** rwlkm,
  /** pix,
  capability, network, mount, remount, umount, pivot_root, ptrace, signal, unix, dbus, mqueue, io_uring,
}
"""
_CONFINED = ("aa-exec", "-p", "everything-else", "--")
# Ubuntu's own setting, which other kernels do not have, shown to one program.
_AS_UBUNTU = """cp /proc/sys/kernel/overflow?id /proc/sys/kernel/cap_last_cap "$0" && chmod 755 "$0" &&
  mount --bind "$0" /proc/sys/kernel && echo 1 > /proc/sys/kernel/apparmor_restrict_unprivileged_userns && exec "$@" """


def _checked(home: Path, user: int | None, *before: str) -> dict[str, Any]:
    words = [*before]
    if user is not None:
        words += ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"]
    words += ["env", f"LIMPET_HOME={home}/{user}", "HOME=/nonexistent"]
    words += [str(Path(sys.executable).with_name("limpet")), "check", "bubblewrap", "--json"]
    home.chmod(0o777)
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout, done.stderr
    (found,) = json.loads(done.stdout)["runtimes"]
    return dict(found)


def _follow(remedy: str) -> None:
    subprocess.run(["sh", "-ec", remedy], check=True, capture_output=True)


@pytest.fixture
def everything_else() -> Iterator[None]:
    """The profile of that name, loaded; and none for bubblewrap, before and after."""
    subprocess.run(["apparmor_parser", "--replace"], input=_PROFILE, text=True, check=True)
    yield
    subprocess.run(["apparmor_parser", "--remove"], input=_PROFILE, text=True, check=True)
    if _LOADED.exists():
        subprocess.run(["apparmor_parser", "--remove", str(_LOADED)], check=True)
        _LOADED.unlink()


@_WHO
@pytest.mark.parametrize("setting", ["user.max_user_namespaces", "kernel.unprivileged_userns_clone"])
def test_a_setting_of_the_kernel_that_refuses_is_named_and_to_set_it_mends(
    home: Path, setting: str, user: int | None
) -> None:
    file = Path("/proc/sys", *setting.split("."))
    before = file.read_text()
    file.write_text("0")
    try:
        refused = _checked(home, user)
        _follow(refused["remedy"])
        mended = _checked(home, user)
    finally:
        file.write_text(before)

    assert (refused["works"], refused["remedy"].startswith(f"sysctl -w {setting}=")) == (False, True)
    assert (mended["works"], mended["remedy"]) == (True, "")


@needs_apparmor
@_WHO
def test_where_apparmor_refuses_as_on_ubuntu_the_printed_profile_mends_it(
    home: Path, tmp_path: Path, everything_else: None, user: int | None
) -> None:
    as_ubuntu = ("unshare", "--mount", "sh", "-ec", _AS_UBUNTU, str(tmp_path), *_CONFINED)

    refused = _checked(home, user, *as_ubuntu)
    _follow(refused["remedy"])
    # What shows that setting covers a part of /proc, and that alone lets no box have a /proc of its own.
    mended = _checked(home, user, *_CONFINED)

    assert (refused["works"], refused["remedy"].startswith("printf 'abi <abi/4.0>,")) == (False, True)
    assert (mended["works"], mended["remedy"]) == (True, "")


@needs_apparmor
@_WHO
def test_a_profile_around_limpet_that_refuses_is_named_with_what_mends_it(
    home: Path, everything_else: None, user: int | None
) -> None:
    refused = _checked(home, user, *_CONFINED)
    said, _, commands = refused["remedy"].partition(" in it and: ")
    _follow(commands)
    mended = _checked(home, user, *_CONFINED)

    assert (refused["works"], "AppArmor's profile everything-else," in said) == (False, True)
    assert mended["works"] is True
