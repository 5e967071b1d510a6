"""The directories of a box on the host, and what of them, and of the host, it sees where. Makes files; starts nothing."""

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from limpet.core.box_directories import DATA, HOME, LASTING
from limpet.core.errors import BootFailed
from limpet.core.network import JAVA_TRUST_FILE, TRUST_FILE
from limpet.core.ports import Offer, SandboxSpec
from limpet.runtimes.bubblewrap import user_environment
from limpet.runtimes.bubblewrap.agent_python import hosts_python, python_beside_an_image
from limpet.runtimes.bubblewrap.java_trust import JAVA_ENVIRONMENT, write_java_trust
from limpet.runtimes.bubblewrap.root_image import RootImage
from limpet.runtimes.bubblewrap.settings import BoxPaths
from limpet.runtimes.bubblewrap.shared_directory import DirectoryContents, shared_directory
from limpet.runtimes.bubblewrap.walls import BuiltWalls, build
from limpet.runtimes.programs import SHELL

USER = 1000  # inside
CERTIFICATES = TRUST_FILE
_MOST_CERTIFICATES = 8 << 20  # bytes
_BUNDLES = (CERTIFICATES, "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
# What programs in the host's /usr expect to find and what says nothing about the host's people.
_HARMLESS_SETTINGS = (
    "alternatives",
    "fonts",
    "ImageMagick-6",
    "ImageMagick-7",
    "libreoffice",
    "perl",
    "python3",
    "texmf",
)
_HARMLESS_FILES = (
    "debian_version",
    "ld.so.cache",
    "mime.types",
    "os-release",
    "protocols",
    "services",
)

ENVIRONMENT: Mapping[str, str] = {
    "PATH": user_environment.SYSTEM_PATH,
    "HOME": HOME,
    "USER": "agent",
    "LOGNAME": "agent",
    "SHELL": SHELL,
    "LANG": "C.UTF-8",
    "LIMPET_DATA": DATA,
    "SSL_CERT_FILE": CERTIFICATES,
    "REQUESTS_CA_BUNDLE": CERTIFICATES,
    "CURL_CA_BUNDLE": CERTIFICATES,
    "GIT_SSL_CAINFO": CERTIFICATES,
    "NODE_EXTRA_CA_CERTS": CERTIFICATES,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A box's directories, made; `files` are its lasting roots by their path inside, `python` starts the agent.

    `carried` are directories that the box's user cannot walk to: each must be bound to the second path, which he can reach, in
    a mount namespace of bubblewrap's own. `walls` say what else is different where the box has some; `environment` are the variables
    of every command, `shell` runs scripts.
    """

    files: Mapping[str, Path]
    mounts: tuple[str, ...]
    python: tuple[str, ...]
    carried: tuple[tuple[Path, Path], ...]
    walls: BuiltWalls
    environment: Mapping[str, str]
    shell: str


def lay_out(
    spec: SandboxSpec, place: BoxPaths, image: RootImage | None, user_id: int | None, *, processors: int | None = None
) -> Layout:
    """Make what is missing and say how to mount it. `user_id` is the owner on the host where this process is root; `processors` is how
    many the box is told of (None: those that there are).

    Raises BootFailed where that user cannot reach the box's own directory or the image, no python3 can be found for the agent, or walls
    are asked for that the image's shell cannot stand behind.
    """
    shell = SHELL if image is None else image.shell
    _require_walls_of(image, spec)
    files = _make_directories(spec, place, image, user_id)
    _require_passable(place, image, user_id)
    python, programs = (hosts_python(), ()) if image is None else python_beside_an_image(place.shared)
    system = _hosts_programs() if image is None else image.programs(spec.read_only)
    mounts = [*system, *programs, *_shared_settings(place, image, spec, processors), *_of_the_box(place, image)]
    carried: list[tuple[Path, Path]] = []
    for option, shown in (("--bind", files), ("--ro-bind", spec.read_only)):
        for inside, directory in shown.items():
            mounts += [option, str(_reachable(directory, place, user_id, carried)), inside]
    if image is None or not os.path.lexists(image.root / ".venv"):
        mounts += user_environment.UV_ENVIRONMENT
    brought = {} if image is None else image.variables
    common = {**brought, **ENVIRONMENT, "SHELL": shell, "PATH": brought.get("PATH", ENVIRONMENT["PATH"])}
    if image is not None and Offer.NETWORK_POLICY in spec.needs:
        common |= JAVA_ENVIRONMENT  # Debian's Java looks there by itself
    environment = user_environment.environment(common, spec, processors)
    walls = build(
        spec.walls,
        (*mounts, "--remount-ro", "/"),
        place=place,
        image=None if image is None else image.root,
        search=user_environment.system_search(environment),
        carried={target: source for source, target in carried},
    )
    return Layout(
        files=files,
        mounts=walls.mounts,
        python=python,
        carried=tuple(carried),
        walls=walls,
        environment=environment,
        shell=shell,
    )


def _of_the_box(place: BoxPaths, image: RootImage | None) -> Iterator[str]:
    """The mounts of what the kernel shows and of what goes with the box."""
    # The kernel lets a box's own root write some settings of its namespaces: kernel.pid_max alone would brick it.
    yield from ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys")
    tmp, memory = place.private
    yield from ("--dev", "/dev", "--bind", str(memory), "/dev/shm", "--remount-ro", "/dev")
    yield from ("--bind", str(tmp), "/tmp", *_long_lived_tmp(image, tmp))


def _require_walls_of(image: RootImage | None, spec: SandboxSpec) -> None:
    """BootFailed where programs are to be walled off that the image's shell holds itself."""
    if image is None or (spec.walls.programs is None and not spec.walls.hidden):
        return
    if (program := image.shell_of_many) is not None:
        raise BootFailed(
            f"a policy's commands cannot be built into a box of the image {image.root}: its shell, {program}, holds other programs"
            " too. Choose an image with bash, or leave allowed_commands and blocked_commands out."
        )


def _make_directories(
    spec: SandboxSpec, place: BoxPaths, image: RootImage | None, user_id: int | None
) -> dict[str, Path]:
    """Make the box's directories, each its user's own; returns the lasting ones by their path inside."""
    place.directory.mkdir(parents=True)
    lasting = spec.directory if spec.directory is not None else place.directory
    files = {path: lasting / name for path, name in LASTING.items()}
    lasting.mkdir(parents=True, exist_ok=True)
    private = place.private
    for directory in (*files.values(), *private):
        directory.mkdir(mode=0o700, exist_ok=True)
    for directory in {lasting, place.directory, *files.values(), *private}:
        if user_id is not None:
            os.chown(directory, user_id, user_id, follow_symlinks=False)
        directory.chmod(0o1777 if directory in private else 0o700)
    user_environment.furnish_home(files[HOME], _base(image), user_id)
    return files


def _base(image: RootImage | None) -> Path:
    """The root of the box's programs."""
    return Path("/") if image is None else image.root


def _require_passable(place: BoxPaths, image: RootImage | None, user_id: int | None) -> None:
    """BootFailed where the box's user cannot reach its directory, or the image."""
    if image is not None and (closed := _closed_above(image.root / "usr", user_id)) is not None:
        raise BootFailed(f"{closed} lets no other user pass, so no box can have the image below it. chmod o+x {closed}")
    if (closed := _closed_above(place.directory, user_id)) is not None:
        raise BootFailed(
            f"{closed} lets no other user pass, so no box can have its things below it. chmod o+x {closed}"
        )


def _reachable(directory: Path, place: BoxPaths, user_id: int | None, carried: list[tuple[Path, Path]]) -> Path:
    """Where the box's user can reach that directory: there, or where it is `carried` to."""
    if _closed_above(directory, user_id) is None:
        return directory
    source = place.directory / f"carried-{len(carried)}"
    source.mkdir()
    carried.append((directory, source))
    return source


def _shared_settings(
    place: BoxPaths, image: RootImage | None, spec: SandboxSpec, processors: int | None
) -> Iterator[str]:
    """The mounts of what the box shares with others: its /etc with what is left there of the host's or the image's, and the number of
    its processors."""
    settings = shared_directory(place.shared, _settings(image, spec))
    yield from ("--ro-bind", str(settings), "/etc")
    if Offer.NETWORK_POLICY in spec.needs:
        # Its own: a door may have an authority, for this box alone.
        place.trust.parent.mkdir(exist_ok=True)
        place.trust.parent.chmod(0o755)
        shutil.copyfile(settings / CERTIFICATES.removeprefix("/etc/"), place.trust)
        place.trust.chmod(0o644)
        write_java_trust(place.trust, settings / JAVA_TRUST_FILE.removeprefix("/etc/"))
        yield from ("--ro-bind", str(place.trust.parent), os.path.dirname(CERTIFICATES))
    yield from _host_settings() if image is None else image.settings()
    if processors is not None:
        counted = shared_directory(place.shared, user_environment.processors_shown(processors))
        yield from ("--ro-bind", str(counted), user_environment.PROCESSORS)


def _certificates(image: RootImage | None, path: str) -> Path | None:
    """That file of authorities, which is copied and read for each box; one that is too large for such is as none."""
    found = _file(image, path)
    return found if found is not None and found.stat().st_size <= _MOST_CERTIFICATES else None


def _settings(image: RootImage | None, spec: SandboxSpec) -> DirectoryContents:
    """A box's /etc: one user, no name server but its door's, none of the host's accounts."""
    ours = user_environment.settings(_base(image))
    shell = SHELL if image is None else image.shell
    texts = {
        **ours.texts,
        **user_environment.accounts_and_names(USER, shell, has_names=Offer.NETWORK_POLICY in spec.needs),
        "hostname": f"{user_environment.HOST_NAME}\n",
    }
    copies, certificates = {}, CERTIFICATES.removeprefix("/etc/")
    bundles = (_certificates(image, bundle) for bundle in _BUNDLES)
    if (bundle := next((bundle for bundle in bundles if bundle is not None), None)) is not None:
        copies[certificates] = bundle
    else:
        texts[certificates] = ""
    if (java := _certificates(image, JAVA_TRUST_FILE)) is not None:
        copies[JAVA_TRUST_FILE.removeprefix("/etc/")] = java
    links, directories = dict(ours.links), ours.directories
    if image is None:
        copies |= {file: path for file in _HARMLESS_FILES if (path := Path("/etc", file)).is_file()}
        directories += _harmless_settings()
    else:
        known = {path.partition("/")[0] for path in (*texts, *ours.programs, *copies, *links, *directories)}
        links |= {name: place for name, place in image.settings_links().items() if name not in known}
    return DirectoryContents(texts=texts, programs=ours.programs, copies=copies, links=links, directories=directories)


def _file(image: RootImage | None, path: str) -> Path | None:
    """A regular file of the host or the image; of an image by its own links alone."""
    if image is not None:
        return image.file(path)
    return Path(path) if Path(path).is_file() else None


def _host_settings() -> Iterator[str]:
    for directory in _harmless_settings():
        yield from ("--ro-bind", f"/etc/{directory}", f"/etc/{directory}")


def _harmless_settings() -> tuple[str, ...]:
    """Directories of the host's /etc that programs of its /usr cannot do without; Debian's Java has all its settings there."""
    java = sorted(path.name for path in Path("/etc").glob("java-*-openjdk"))
    return tuple(name for name in (*_HARMLESS_SETTINGS, *java) if Path("/etc", name).is_dir())


def _hosts_programs() -> Iterator[str]:
    """The host's /usr and its short names."""
    yield from ("--ro-bind", "/usr", "/usr")
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        entry = Path("/", name)
        if entry.is_symlink():
            yield from ("--symlink", os.readlink(entry).lstrip("/"), f"/{name}")
        elif entry.is_dir():
            yield from ("--ro-bind", f"/{name}", f"/{name}")


def _long_lived_tmp(image: RootImage | None, tmp: Path) -> tuple[str, ...]:
    if image is None or not os.path.lexists(image.root / "var"):
        return ("--symlink", "../tmp", "/var/tmp")
    return ("--bind", str(tmp), "/var/tmp") if image.is_directory("/var/tmp") else ()


def _closed_above(directory: Path, user_id: int | None) -> Path | None:
    """The first directory on the way there that does not let the box's user pass: bubblewrap runs as that user."""
    if user_id is None:
        return None
    for above in reversed(directory.absolute().parents):
        status = above.stat()
        if not status.st_mode & 0o001 and status.st_uid != user_id:
            return above
    return None
