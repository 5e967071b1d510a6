"""The directories of a box on the host, and what of them, and of the host, it sees where. Makes files; starts nothing."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from limpet.core.box_directories import DATA, HOME, LASTING
from limpet.core.errors import BootFailed
from limpet.core.network import DOOR_ADDRESS, TRUST_FILE
from limpet.core.ports import Offer, SandboxSpec
from limpet.runtimes.bubblewrap import user_environment
from limpet.runtimes.bubblewrap.settings import BoxPaths
from limpet.runtimes.bubblewrap.shared_directory import DirectoryContents, shared_directory
from limpet.runtimes.bubblewrap.walls import AGENTS_PROGRAMS, BuiltWalls, build

USER = 1000  # inside
HOST_NAME = "box"
CERTIFICATES = TRUST_FILE
_IMAGE_SETTINGS = "/run/limpet/etc"
_NAME_SERVER = f"nameserver {DOOR_ADDRESS}\noptions timeout:2 attempts:2\n"
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
    "ssl/certs/java/cacerts",
)
_OURS = ("proc", "dev", "tmp", "mnt", "home", "run", "sys", "etc", "root", "boot", "lost+found", "old_root")

ENVIRONMENT: Mapping[str, str] = {
    "PATH": user_environment.SYSTEM_PATH,
    "HOME": HOME,
    "USER": "agent",
    "LOGNAME": "agent",
    "SHELL": "/bin/bash",
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
    of every command.
    """

    files: Mapping[str, Path]
    mounts: tuple[str, ...]
    python: tuple[str, ...]
    carried: tuple[tuple[Path, Path], ...]
    walls: BuiltWalls
    environment: Mapping[str, str]


def lay_out(
    spec: SandboxSpec, place: BoxPaths, image: Path | None, user_id: int | None, *, processors: int | None = None
) -> Layout:
    """Make what is missing and say how to mount it. `user_id` is the owner on the host where this process is root; `processors` is how
    many the box is told of (None: those that there are).

    Raises BootFailed where that user cannot reach the box's own directory, or no python3 can be found for the agent.
    """
    files = _make_directories(spec, place, image, user_id)
    _require_passable(place, user_id)
    python, programs = _python(image)
    mounts = [*_programs(image), *programs, *_shared_settings(place, image, spec, processors)]
    # The kernel lets a box's own root write some settings of its namespaces: kernel.pid_max alone would brick it.
    mounts += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
    private = place.private
    mounts += ["--dev", "/dev", "--bind", str(private[1]), "/dev/shm", "--remount-ro", "/dev"]
    mounts += ["--bind", str(private[0]), "/tmp", *_long_lived_tmp(image, private[0])]
    carried: list[tuple[Path, Path]] = []
    for option, shown in (("--bind", files), ("--ro-bind", spec.read_only)):
        for inside, directory in shown.items():
            mounts += [option, str(_reachable(directory, place, user_id, carried)), inside]
    if image is None or not os.path.lexists(image / ".venv"):
        mounts += user_environment.UV_ENVIRONMENT
    environment = user_environment.environment(ENVIRONMENT, spec, processors)
    walls = build(
        spec.walls,
        (*mounts, "--remount-ro", "/"),
        place=place,
        image=image,
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
    )


def _make_directories(spec: SandboxSpec, place: BoxPaths, image: Path | None, user_id: int | None) -> dict[str, Path]:
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
    user_environment.furnish_home(files[HOME], image or Path("/"), user_id)
    return files


def _require_passable(place: BoxPaths, user_id: int | None) -> None:
    """BootFailed where the box's user cannot reach its directory."""
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


def _shared_settings(place: BoxPaths, image: Path | None, spec: SandboxSpec, processors: int | None) -> Iterator[str]:
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
        yield from ("--ro-bind", str(place.trust.parent), os.path.dirname(CERTIFICATES))
    yield from _image_settings(image) if image else _host_settings()
    if processors is not None:
        counted = shared_directory(place.shared, user_environment.processors_shown(processors))
        yield from ("--ro-bind", str(counted), user_environment.PROCESSORS)


def _settings(image: Path | None, spec: SandboxSpec) -> DirectoryContents:
    """A box's /etc: one user, no name server but its door's, none of the host's accounts."""
    base = image or Path("/")
    ours = user_environment.settings(base)
    # Without a door no server is asked: names do not exist then, where they would fail "temporarily", and npm tries again for a minute.
    has_names = Offer.NETWORK_POLICY in spec.needs
    texts = {
        **ours.texts,
        "passwd": f"root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:{USER}:{USER}:agent:{HOME}:/bin/bash\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
        "group": f"root:x:0:\nagent:x:{USER}:\nnogroup:x:65534:\n",
        "hosts": f"127.0.0.1 localhost {HOST_NAME}\n::1 localhost ip6-localhost ip6-loopback\n",
        "hostname": f"{HOST_NAME}\n",
        "nsswitch.conf": f"passwd: files\ngroup: files\nhosts: files{' dns' * has_names}\nprotocols: files\nservices: files\n",
        "resolv.conf": _NAME_SERVER if has_names else "",
    }
    copies, certificates = {}, CERTIFICATES.removeprefix("/etc/")
    bundles = (base / bundle.lstrip("/") for bundle in _BUNDLES)
    if (bundle := next((bundle for bundle in bundles if bundle.is_file()), None)) is not None:
        copies[certificates] = bundle
    else:
        texts[certificates] = ""
    links, directories = dict(ours.links), ours.directories
    if image is None:
        copies |= {file: path for file in _HARMLESS_FILES if (path := Path("/etc", file)).is_file()}
        directories += _harmless_settings()
    else:
        known = {path.partition("/")[0] for path in (*texts, *ours.programs, *copies, *links, *directories)}
        links |= {name: f"{_IMAGE_SETTINGS}/{name}" for name in _names(image / "etc") if name not in known}
    return DirectoryContents(texts=texts, programs=ours.programs, copies=copies, links=links, directories=directories)


def _names(directory: Path) -> list[str]:
    return [entry.name for entry in _entries(directory)]


def _entries(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []


def _host_settings() -> Iterator[str]:
    for directory in _harmless_settings():
        yield from ("--ro-bind", f"/etc/{directory}", f"/etc/{directory}")


def _harmless_settings() -> tuple[str, ...]:
    """Directories of the host's /etc that programs of its /usr cannot do without; Debian's Java has all its settings there."""
    java = sorted(path.name for path in Path("/etc").glob("java-*-openjdk"))
    return tuple(name for name in (*_HARMLESS_SETTINGS, *java) if Path("/etc", name).is_dir())


def _image_settings(image: Path) -> Iterator[str]:
    if (image / "etc").is_dir():
        yield from ("--ro-bind", str(image / "etc"), _IMAGE_SETTINGS)


def _programs(image: Path | None) -> Iterator[str]:
    """The root file system: /usr and its short names, or all that an image has and that isn't the box's own."""
    if image is not None:
        for entry in _entries(image):
            if entry.name in _OURS:
                continue
            if entry.is_symlink():
                yield from ("--symlink", os.readlink(entry), f"/{entry.name}")
            else:
                yield from ("--ro-bind", str(entry), f"/{entry.name}")
        return
    yield from ("--ro-bind", "/usr", "/usr")
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        entry = Path("/", name)
        if entry.is_symlink():
            yield from ("--symlink", os.readlink(entry).lstrip("/"), f"/{name}")
        elif entry.is_dir():
            yield from ("--ro-bind", f"/{name}", f"/{name}")


def _long_lived_tmp(image: Path | None, tmp: Path) -> tuple[str, ...]:
    if image is None or not (image / "var").exists():
        return ("--symlink", "../tmp", "/var/tmp")
    return ("--bind", str(tmp), "/var/tmp") if (image / "var/tmp").is_dir() else ()


def _python(image: Path | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """How to start Python in the box, and what must be mounted for that."""
    if image is None or _is_program(image, "/usr/bin/python3"):
        if image is None and not Path("/usr/bin/python3").exists():
            raise BootFailed("this host has no /usr/bin/python3. apt-get install python3")
        return ("/usr/bin/python3",), ()
    real = Path("/usr/bin/python3").resolve()
    loaders = sorted(Path("/usr/lib64").glob("ld-linux*")) + sorted(Path("/usr/lib").glob("ld-linux*"))
    if not real.exists() or not loaders:
        raise BootFailed(f"neither {image} nor this host has a /usr/bin/python3. apt-get install python3")
    libraries = f"{AGENTS_PROGRAMS}/lib/{sys.implementation._multiarch}:{AGENTS_PROGRAMS}/lib64:{AGENTS_PROGRAMS}/lib"
    loader = f"{AGENTS_PROGRAMS}/{loaders[0].resolve().relative_to('/usr')}"
    start = (loader, "--library-path", libraries, f"{AGENTS_PROGRAMS}/bin/{real.name}")
    return start, ("--ro-bind", "/usr", AGENTS_PROGRAMS)


def _is_program(image: Path, path: str) -> bool:
    """Whether `path` is a file in the image, by its own links."""
    for _ in range(8):
        there = image / path.lstrip("/")
        if not there.is_symlink():
            return there.is_file()
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(there)))
    return False


def _closed_above(directory: Path, user_id: int | None) -> Path | None:
    """The first directory on the way there that does not let the box's user pass: bubblewrap runs as that user."""
    if user_id is None:
        return None
    for above in reversed(directory.absolute().parents):
        status = above.stat()
        if not status.st_mode & 0o001 and status.st_uid != user_id:
            return above
    return None
