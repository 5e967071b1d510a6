"""Whether boxes can be had on this host, by really booting one; and if not, what would mend it."""

import os
from shutil import which

from limpet.core.ports import Probe
from limpet.runtimes.bubblewrap.limits.groups import Groups
from limpet.runtimes.bubblewrap.remedies import Host, remedy


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
    mends = remedy(complaint, Host.here()) or ("" if says_it_all else shows)
    return Probe(works=False, detail=f"A box did not start: {complaint}", remedy=mends)


def success(groups: Groups | None, notes: tuple[str, ...]) -> Probe:
    who = "a user of its own for each sandbox" if os.geteuid() == 0 else "this user"
    bounds = f"cgroups version {groups.version}" if groups else "limits of each process"
    disk = "What it takes up of the disk is held by looking at it, not by a quota of the file system."
    return Probe(works=True, detail=f"A box ran a command, as {who}, under {bounds}. {disk}", notes=notes)
