"""What the user of a box finds configured, so that first steps work: variables, pip, uv, npm and git, a time zone, the number of
processors, and words for programs that cannot work. Makes files; starts nothing.

System-wide settings only, below any of the user's own: `~/.gitconfig`, `~/.npmrc`, a virtual environment or an option decide over them.
"""

import math
import os
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path

from limpet.core.box_directories import DATA, HOME
from limpet.core.network import DOOR_ADDRESS
from limpet.core.ports import SandboxSpec
from limpet.runtimes.bubblewrap.shared_directory import DirectoryContents

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OWN = f"{HOME}/.local"  # where pip, uv and npm install; Python's user base (site.USER_BASE)
_EXPLAINED = "/etc/limpet/bin"  # programs that are there and cannot work: where they fail, a sentence follows
_VARIABLES_OF_PROCESSORS = ("OMP_NUM_THREADS", "GOMAXPROCS", "PYTHON_CPU_COUNT")
# uv installs into the `.venv` of the working directory or of the next one above it; in every directory of a box this is the last.
UV_ENVIRONMENT = ("--symlink", _OWN, "/.venv")
PROCESSORS = "/sys/devices/system/cpu"
HOST_NAME = "box"
_NAME_SERVER = f"nameserver {DOOR_ADDRESS}\noptions timeout:2 attempts:2\n"
# bash calls it for a program that is not there (bash(1), COMMAND EXECUTION); functions travel in variables of this shape.
NOT_FOUND = "BASH_FUNC_command_not_found_handle%%"

# The variables beside those that every box has (`layout.ENVIRONMENT`).
_VARIABLES: Mapping[str, str] = {
    "NPM_CONFIG_GLOBALCONFIG": "/etc/npmrc",  # npm from elsewhere than Debian looks for it below its own prefix
    "UV_LINK_MODE": "copy",  # its cache lies on another mount than /mnt/data, and it warns of that each time
    NOT_FOUND: "() {  . /etc/limpet/command-not-found; }",
}
_SETTINGS = {
    # Without `user`: pip chooses the home by itself where the system cannot be written, and in a virtual environment it must not.
    # A host that is refused now is refused again: by itself pip tries for 9 seconds, npm for 70.
    "pip.conf": "[global]\nbreak-system-packages = true\ndisable-pip-version-check = true\nretries = 1\n",
    "npmrc": f"prefix={_OWN}\nupdate-notifier=false\nfund=false\nfetch-retry-mintimeout=500\nfetch-retry-maxtimeout=2000\n",
    "gitconfig": "[user]\n\tname = agent\n\temail = agent@localhost\n[init]\n\tdefaultBranch = main\n",
    "timezone": "Etc/UTC\n",
}
_NO_ROOT = "there is no root in this sandbox, and no way to become root"
_HINTS = {
    "apt apt-get aptitude apk dnf yum zypper pacman snap": f"{_NO_ROOT}, so no packages of the system can be installed. Python and Node"
    " packages can, into your home: pip install NAME, npm install -g NAME. Anything else must be in the image; tell the user.",
    "sudo su doas": f"{_NO_ROOT}. Run the command without it: what lies below {DATA}, {HOME} and /tmp is yours.",
    "ping ping6 traceroute tracepath nmap": "a sandbox has no raw sockets and no ICMP. Ask a server over HTTP instead: curl -sSI URL",
    "docker docker-compose podman nerdctl buildah": "no container engine can run in this sandbox. Install and start what you need as a"
    " plain process instead, in the background; tell the user if it must be a container.",
    "systemctl service journalctl systemd-run": "there is no service manager in this sandbox. Start the program itself in the background,"
    " with its output in a file: PROGRAM > log 2>&1 &",
    "uv uvx": "install it with: pip install uv",
    "python": "use python3",
    "pip pip3": "use python3 -m pip, or make a virtual environment that has it: python3 -m venv DIRECTORY",
}
_NOT_FOUND = """{ set +x; } 2> /dev/null
printf '%s: line %s: %s: command not found\\n' "${BASH_SOURCE[2]:-$0}" "${BASH_LINENO[1]}" "$1" >&2
. /etc/limpet/hints
return 127
"""
_EXPLAINING = """#!/bin/sh
# The real program runs. It cannot do all of its work in this sandbox; where it fails, a hint follows on standard error.
%s "$@"
code=$?
set -- %s
[ "$code" = 0 ] || . /etc/limpet/hints
exit "$code"
"""
# Programs that a host may have and that cannot do their work; the other hints are for programs that are missing.
_POWERLESS = "apt apt-get aptitude dnf yum zypper pacman snap sudo su ping ping6 traceroute docker podman systemctl service".split()


def environment(common: Mapping[str, str], spec: SandboxSpec, processors: int | None) -> dict[str, str]:
    """The variables of every command, with those that are `common` to all boxes of an image. On the PATH what the user installs comes
    last: nothing of it stands in for a program of the system, which a policy may speak of by its name. Where walls hold which programs
    may run, none that the user brings is on the PATH."""
    found = {**common, **_VARIABLES}
    if spec.walls.programs is None:
        found["PATH"] = f"{_EXPLAINED}:{common['PATH']}:{_OWN}/bin"
    if processors is not None:
        # nproc and OpenMP, Go, Python from 3.13 on; others read PROCESSORS.
        found |= dict.fromkeys(_VARIABLES_OF_PROCESSORS, str(processors))
    return found | dict(spec.env)


def system_search(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The directories of the PATH that are the system's: those below a box's own lie elsewhere on the host."""
    return tuple(place for place in environment["PATH"].split(":") if place not in (f"{_OWN}/bin", _EXPLAINED))


def shown_processors(cpus: float | None) -> int | None:
    """How many processors a box may fill that has that share of them; None where nothing bounds it."""
    return None if cpus is None else max(1, min(math.ceil(cpus), len(os.sched_getaffinity(0))))


def processors_shown(count: int) -> DirectoryContents:
    """What tells programs how many processors there are (sysconf(3), lscpu), for PROCESSORS. A box has no other /sys."""
    text = "0\n" if count == 1 else f"0-{count - 1}\n"
    return DirectoryContents(texts=dict.fromkeys(("online", "possible", "present"), text))


def settings(base: Path) -> DirectoryContents:
    """The settings, for a box's /etc; what an image has of them stays its own. `base` is the root of the box's programs."""
    is_timed = (base / "usr/share/zoneinfo/Etc/UTC").exists() and _is_ours(base, "localtime")
    return DirectoryContents(
        texts={
            **{name: text for name, text in _SETTINGS.items() if _is_ours(base, name)},
            "limpet/hints": _hints(),
            "limpet/command-not-found": _NOT_FOUND,
        },
        programs={f"limpet/bin/{name}": _EXPLAINING % (path, name) for name, path in _powerless(base)},
        links={"localtime": "/usr/share/zoneinfo/Etc/UTC"} if is_timed else {},
        directories=("limpet/bin",),
    )


def accounts_and_names(user: int, shell: str, *, has_names: bool) -> dict[str, str]:
    """The texts in a sandbox's /etc that say who is there and how names are found: `user` is the id of the one user inside, `has_names`
    whether a door answers for names. Without one no server is asked: names do not exist then, where they would fail "temporarily", and
    npm tries again for a minute."""
    return {
        "passwd": f"root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:{user}:{user}:agent:{HOME}:{shell}\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
        "group": f"root:x:0:\nagent:x:{user}:\nnogroup:x:65534:\n",
        "hosts": f"127.0.0.1 localhost {HOST_NAME}\n::1 localhost ip6-localhost ip6-loopback\n",
        "nsswitch.conf": f"passwd: files\ngroup: files\nhosts: files{' dns' * has_names}\nprotocols: files\nservices: files\n",
        "resolv.conf": _NAME_SERVER if has_names else "",
    }


def _is_ours(base: Path, name: str) -> bool:
    """Whether nothing of an image says it; of the host's own settings a box sees nothing."""
    return base == Path("/") or not os.path.lexists(base / "etc" / name)


def furnish_home(home: Path, base: Path, user_id: int | None) -> None:
    """Prepare an empty home; one that has anything in it stays as it is, since it is the user's. Makes `python`, and what uv takes for
    a virtual environment: it has none of its own packages, but those of the home and of the system."""
    if any(home.iterdir()):
        return
    local, programs = home / ".local", home / ".local/bin"
    made = [local, programs]
    programs.mkdir(parents=True, mode=0o755)
    if os.path.lexists(base / "usr/bin/python3"):
        (programs / "python").symlink_to("/usr/bin/python3")
        (local / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = true\n")
        made += [programs / "python", local / "pyvenv.cfg"]
    if user_id is not None:
        for path in made:
            os.chown(path, user_id, user_id, follow_symlinks=False)


@cache
def _hints() -> str:
    cases = "".join(f"{' | '.join(names.split())}) set -- {_quoted(text)} ;;\n" for names, text in _HINTS.items())
    return (
        f'set -- "${{1##*/}}"\nname=$1\ncase "$name" in\n{cases}*) set -- ;;\nesac\n'
        '[ "$#" = 0 ] || printf \'%s: %s\\n\' "$name" "$1" >&2\n'
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _powerless(base: Path) -> tuple[tuple[str, str], ...]:
    """Each such program that is there, with its path in the box."""
    return _powerless_in(base, tuple(map(_changed, _below(base))))


@lru_cache(maxsize=64)
def _powerless_in(base: Path, _: tuple[int, ...]) -> tuple[tuple[str, str], ...]:
    """The same, as long as none of the directories has changed."""
    places = tuple(zip(SYSTEM_PATH.split(":"), _below(base), strict=True))
    first = (
        (name, next((shown for shown, place in places if os.path.lexists(f"{place}/{name}")), None))
        for name in _POWERLESS
    )
    return tuple((name, f"{shown}/{name}") for name, shown in first if shown is not None)


def _below(base: Path) -> list[str]:
    """Where the directories of the PATH lie on the host."""
    return [os.path.join(base, directory.lstrip("/")) for directory in SYSTEM_PATH.split(":")]


def _changed(directory: str) -> int:
    try:
        return os.stat(directory).st_mtime_ns
    except OSError:
        return 0
