"""What is said to mend a host that refuses boxes, decided from bubblewrap's words and from what the host looks like."""

from dataclasses import replace

import pytest

from limpet.runtimes.bubblewrap.remedies import Host, remedy

_PLAIN = Host(
    engine="",
    filtered=False,
    profile="",
    settings={
        "user.max_user_namespaces": "95000",
        "kernel.unprivileged_userns_clone": "1",
        "kernel.apparmor_restrict_unprivileged_userns": "",
    },
    bwrap="/usr/bin/bwrap",
)
_UBUNTU = replace(_PLAIN, settings={**_PLAIN.settings, "kernel.apparmor_restrict_unprivileged_userns": "1"})
_FLAGS = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined …"
_PROFILE = (
    "printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap /usr/bin/bwrap flags=(unconfined) {\\n  userns,\\n}\\n'"
    " | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap"
)
_BOTH = f"docker run {_FLAGS}   # and on the host of that container, or where there is none:\n{_PROFILE}"
_NO_NAMESPACE = "bwrap: No permissions to create new namespace, likely because the kernel does not allow it."
_NO_MAP = "bwrap: setting up uid map: Permission denied"
_NO_PROC = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"
_DENIED = "bwrap: Failed to make / slave: Permission denied"
_IN_DOCKER = replace(_PLAIN, engine="docker")


@pytest.mark.parametrize(
    "complaint, host, expected",
    [
        (_NO_NAMESPACE, replace(_IN_DOCKER, filtered=True, profile="docker-default"), f"docker run {_FLAGS}"),
        (_NO_NAMESPACE, replace(_PLAIN, filtered=True), f"docker run {_FLAGS}"),
        (_NO_PROC, _IN_DOCKER, f"docker run {_FLAGS}"),
        (_DENIED, replace(_IN_DOCKER, profile="docker-default"), f"docker run {_FLAGS}"),
        ("bwrap: Can't set hostname to box: Operation not permitted", replace(_PLAIN, engine="podman"), f"podman run {_FLAGS}"),
        (_NO_MAP, _UBUNTU, _PROFILE),
        (_NO_MAP, replace(_UBUNTU, bwrap="/opt/bin/bwrap"), _PROFILE.replace("/usr/bin/bwrap", "/opt/bin/bwrap")),
        (_NO_MAP, replace(_UBUNTU, engine="docker"), _PROFILE),
        (_NO_NAMESPACE, replace(_UBUNTU, engine="docker", filtered=True), _BOTH),
        (_NO_PROC, replace(_UBUNTU, engine="docker"), _BOTH),
    ],
    ids=[
        "docker",
        "a container without a mark",
        "docker that hides paths",
        "docker with its profile alone",
        "podman",
        "ubuntu",
        "a bubblewrap of one's own on ubuntu",
        "flags given on ubuntu",
        "docker on ubuntu",
        "docker that hides paths on ubuntu",
    ],
)  # fmt: skip
def test_containers_and_ubuntu_are_told_their_flags_and_profile(complaint: str, host: Host, expected: str) -> None:
    assert remedy(complaint, host) == expected


def test_a_container_whose_root_may_mount_nothing_is_told_the_capability() -> None:
    complaint = "unshare: unshare failed: Operation not permitted"

    assert remedy(complaint, _IN_DOCKER) == f"docker run --cap-add SYS_ADMIN {_FLAGS}"
    assert remedy(complaint, replace(_IN_DOCKER, filtered=True)) == f"docker run {_FLAGS}"


def test_a_profile_that_refuses_is_named() -> None:
    said = remedy("bwrap: Creating new namespace failed: Permission denied", replace(_PLAIN, profile="mine"))

    assert "profile mine," in said
    assert said.endswith(f"the line `/usr/bin/bwrap px -> bwrap,` in it and: {_PROFILE}")


@pytest.mark.parametrize("host", [_PLAIN, _UBUNTU, _IN_DOCKER, replace(_PLAIN, profile="mine")])
def test_what_is_no_refusal_has_no_such_remedy(host: Host) -> None:
    assert remedy("bwrap: Can't find source path /x: No such file or directory", host) == ""
