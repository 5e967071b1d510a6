"""What would let a host make boxes that refused one: the setting, the flags or the profile. Decided over facts; changes nothing."""

import os
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Self

_SETTINGS = Path("/proc/sys")
_MOST = "user.max_user_namespaces"
_CLONE = "kernel.unprivileged_userns_clone"
_RESTRICTED = "kernel.apparmor_restrict_unprivileged_userns"
SETTINGS = (_MOST, _CLONE, _RESTRICTED)  # by which a kernel can refuse
_FLAGS = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
_ABOUT_NAMESPACES = ("uid map", "user namespace", "new namespace", "Operation not permitted", "No permissions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What may refuse a box here.

    `engine` is the program that made the container around this process, as far as it left its mark; "" without one. `filtered`: some
    of this process's calls are refused. `profile` is the one of AppArmor that confines it, "" without. `settings` are the kernel's
    by their names in sysctl(8), of those that can refuse.
    """

    engine: str
    filtered: bool
    profile: str
    settings: dict[str, str]
    bwrap: str

    @classmethod
    def here(cls) -> Self:
        marks = (("/.dockerenv", "docker"), ("/run/.containerenv", "podman"))
        return cls(
            engine=next((engine for mark, engine in marks if Path(mark).exists()), ""),
            # Many containers carry no other mark (proc_pid_status(5)).
            filtered="\nSeccomp:\t2" in _read("/proc/self/status"),
            profile=_enforced(_read("/proc/self/attr/apparmor/current")),
            settings={name: _read(_SETTINGS.joinpath(*name.split("."))) for name in SETTINGS},
            bwrap=os.path.realpath(which("bwrap") or "/usr/bin/bwrap"),
        )


def remedy(complaint: str, host: Host) -> str:
    """What would mend it, from the words in which a box did not start; "" where they don't tell. Where several things refuse, the
    one that is named is the next to be mended, or all of them are."""
    is_refusal = any(word in complaint for word in _ABOUT_NAMESPACES)
    if host.settings[_MOST] == "0":
        return f"sysctl -w {_MOST}=10000"
    if host.settings[_CLONE] == "0" and is_refusal:
        return f"sysctl -w {_CLONE}=1"
    if complaint.startswith("unshare:") and host.engine and not (host.filtered or host.profile):
        # A directory that the box's user cannot reach is mounted for it first, which root of a container may not.
        return f"{host.engine} run --cap-add SYS_ADMIN {_FLAGS} …"
    if "Unknown option" in complaint:
        return "Install bubblewrap 0.8.0 or newer (Debian 12, Ubuntu 24.04)."
    is_restricted = host.settings[_RESTRICTED] == "1" and is_refusal
    flags = _flags(complaint, host, is_refusal=is_refusal, is_restricted=is_restricted)
    if is_restricted:
        profile = _profile(host.bwrap)
        return (
            f"{flags}   # and on the host of that container, or where there is none:\n{profile}" if flags else profile
        )
    if flags:
        return flags
    if host.profile and (is_refusal or "Permission denied" in complaint):
        return (
            f"Start Limpet outside of AppArmor's profile {host.profile}, or let that profile start bubblewrap under one of its own, "
            f"by the line `{host.bwrap} px -> bwrap,` in it and: {_profile(host.bwrap)}"
        )
    return ""


def _flags(complaint: str, host: Host, *, is_refusal: bool, is_restricted: bool) -> str:
    """The flags for the container that this is, where it refuses; "" where there is none, or it has them all."""
    is_contained = bool(host.engine) or host.filtered
    has_walls = host.filtered or bool(host.profile)
    hides_paths = "mount" in complaint
    denies = has_walls and "Permission denied" in complaint
    # A container that has these flags already is refused by its host.
    is_the_hosts_doing = is_restricted and not has_walls and not hides_paths
    if not is_contained or is_the_hosts_doing or not (is_refusal or hides_paths or denies):
        return ""
    return f"{host.engine or 'docker'} run {_FLAGS} …"


def _profile(bwrap: str) -> str:
    lines = (
        f"abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap {bwrap} flags=(unconfined) {{\\n  userns,\\n}}\\n"
    )
    file = "/etc/apparmor.d/bwrap"
    return f"printf '{lines}' | sudo tee {file} && sudo apparmor_parser -r {file}"


def _enforced(label: str) -> str:
    """The profile's name from a label such as `docker-default (enforce)`; "" where nothing is refused by it."""
    name, _, mode = label.rpartition(" (")
    return name if mode in ("enforce)", "kill)", "user)", "prompt)") else ""


def _read(path: Path | str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
