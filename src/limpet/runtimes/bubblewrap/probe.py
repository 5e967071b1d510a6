"""Whether boxes can be had on this host, by really booting one; and if not, what would mend it."""

import os
from pathlib import Path
from shutil import which

from limpet.core.ports import Probe
from limpet.runtimes.bubblewrap.limits import Groups

_APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_CLONE = "/proc/sys/kernel/unprivileged_userns_clone"
_MOST = "/proc/sys/user/max_user_namespaces"
_PROFILE = (
    "printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap /usr/bin/bwrap flags=(unconfined) {\\n  userns,\\n}\\n'"
    " | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap"
)
_DOCKER = "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined …"


def missing_programs() -> Probe | None:
    """What has to be installed first; None where all is there."""
    for program, package in (("bwrap", "bubblewrap"), ("setpriv", "util-linux"), ("/usr/bin/python3", "python3")):
        if which(program) is None:
            return Probe(works=False, detail=f"{program} is not installed.", remedy=f"apt-get install {package}")
    return None


def explain(complaint: str) -> Probe:
    """Why a box did not start, from bubblewrap's own words and what the kernel was told to refuse."""
    shows = "bwrap --unshare-user --unshare-pid --ro-bind / / --proc /proc true   # shows the same without Limpet"
    says_it_all = "lets no other user pass" in complaint or "apt-get" in complaint
    if "No space left" in complaint:
        shows = "Make room on the disk of LIMPET_HOME."
    remedy = remedy_for(complaint) or ("" if says_it_all else shows)
    return Probe(works=False, detail=f"A box did not start: {complaint}", remedy=remedy)


def remedy_for(complaint: str) -> str:
    """What would let this host make boxes, from the words in which one did not start; "" where that is not known to be the reason."""
    about_users = any(
        word in complaint for word in ("uid map", "user namespace", "Operation not permitted", "No permissions")
    )
    if _read(_MOST) == "0":
        return "sysctl -w user.max_user_namespaces=10000"
    if _read(_CLONE) == "0" and about_users:
        return "sysctl -w kernel.unprivileged_userns_clone=1"
    if "Unknown option" in complaint:
        return "Install bubblewrap 0.8.0 or newer (Debian 12, Ubuntu 24.04)."
    if _read(_APPARMOR) == "1" and about_users:
        return _PROFILE
    if (_in_container() or _is_filtered()) and (about_users or "mount" in complaint):
        return _DOCKER
    return ""


def _in_container() -> bool:
    return Path("/.dockerenv").exists() or Path("/run/.containerenv").exists()


def _is_filtered() -> bool:
    """Whether some of this process's calls are refused: many containers carry no other mark (proc_pid_status(5))."""
    return "\nSeccomp:\t2" in _read("/proc/self/status")


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def notes(groups: Groups | None) -> tuple[str, ...]:
    """What cannot be held here, one sentence each."""
    hidden = (
        () if os.geteuid() == 0 else ("On disk, a directory that a command closes to its own user is not counted.",)
    )
    if groups is not None:
        return hidden
    why = "no cgroup can be made here" if os.geteuid() == 0 else "no cgroup was delegated to this user"
    return (
        f"Memory and processes are bounded per process, not per sandbox, since {why}.",
        "CPU is not bounded.",
        *hidden,
    )


def success(groups: Groups | None, unbounded: tuple[str, ...]) -> Probe:
    """`unbounded` says in sentences what the box that was tried could not be kept from."""
    who = "a user of its own for each sandbox" if os.geteuid() == 0 else "this user"
    bounds = f"cgroups version {groups.version}" if groups else "limits of each process"
    return Probe(
        works=True, detail=f"A box ran a command, as {who}, under {bounds}.", notes=(*notes(groups), *unbounded)
    )
