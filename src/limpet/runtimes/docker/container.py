"""What a container is made of: its directories on this host, and what the engine is asked for. Makes files; starts nothing."""

import os
import resource
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from limpet.core.box_directories import DATA, HOME, LASTING, TEMPORARY
from limpet.core.errors import BootFailed
from limpet.core.network import TRUST_FILE
from limpet.core.ports import Limits, Offer, SandboxSpec, TimeToLive
from limpet.runtimes.bubblewrap import seccomp, user_environment
from limpet.runtimes.bubblewrap.agent_python import python_beside_an_image
from limpet.runtimes.bubblewrap.java_trust import write_java_trust
from limpet.runtimes.bubblewrap.layout import ENVIRONMENT
from limpet.runtimes.bubblewrap.limits import groups
from limpet.runtimes.bubblewrap.root_image import variables_of_commands
from limpet.runtimes.docker import process_one
from limpet.runtimes.docker.engine import EngineImage
from limpet.runtimes.docker.settings import HOME_LABEL, NAME_LABEL, OWNED_LABEL, ContainerPaths, DockerSettings
from limpet.runtimes.programs import SHELL

_SPARE_PROCESSES = 8  # beside its commands: the agent, and room for it to start one more
_CPU_PERIOD = 100_000  # microseconds
# What every container may do and none of ours: all but becoming the user that runs its commands.
_BECOMES_A_USER = ["SETUID", "SETGID"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlan:
    """All that is decided about a container before the engine is asked. `owner` runs its commands and owns its files; `becomes` is the
    same where its first process begins as root. `files` are its lasting roots by their path inside."""

    spec: SandboxSpec
    place: ContainerPaths
    image: EngineImage
    boot_id: str
    owner: int
    becomes: int | None
    limits: Limits
    files: Mapping[str, Path]


def prepare(plan: ContainerPlan, *, orphan_grace: float) -> None:
    """Make the container's directories and files, each its user's own; the agent's are those of this process. Blocking."""
    place = plan.place
    place.directory.mkdir(parents=True)
    place.directory.chmod(0o711)
    place.agent.mkdir(mode=0o700)
    os.mkfifo(place.lifeline, 0o600)
    place.empty.mkdir(mode=0o755)
    _make_lasting(plan)
    _make_settings(plan)
    rules = seccomp.program(denies_memory_files=False)
    told = process_one.start_payload(_config(plan, orphan_grace), user=plan.becomes, system_call_filter=rules)
    place.payload.write_bytes(told)
    place.payload.chmod(0o600)


def _make_lasting(plan: ContainerPlan) -> None:
    lasting = plan.spec.directory or plan.place.directory
    lasting.mkdir(parents=True, exist_ok=True)
    for directory in (*plan.files.values(), plan.place.temporary):
        directory.mkdir(mode=0o700, exist_ok=True)
        directory.chmod(0o700)
        if plan.becomes is not None:
            os.chown(directory, plan.owner, plan.owner, follow_symlinks=False)
    if plan.becomes is not None and plan.spec.directory is not None:
        os.chown(lasting, plan.owner, plan.owner, follow_symlinks=False)
    user_environment.furnish_home(plan.files[HOME], plan.place.directory, plan.becomes)


def _make_settings(plan: ContainerPlan) -> None:
    """One user, no name server but its door's; the rest of /etc is the image's."""
    has_names = Offer.NETWORK_POLICY in plan.spec.needs
    texts = {
        **user_environment.accounts_and_names(plan.owner, SHELL, has_names=has_names),
        "ld.so.preload": "",  # what an image has there would be loaded into the agent (ld.so(8))
    }
    ours = user_environment.settings(plan.place.directory)
    contents = replace(ours, texts={**ours.texts, **texts})
    plan.place.settings.mkdir()
    contents.write(plan.place.settings)
    if has_names:
        plan.place.trust.parent.mkdir(mode=0o755)
        if Path(TRUST_FILE).is_file():
            shutil.copyfile(TRUST_FILE, plan.place.trust)
        else:
            plan.place.trust.touch()
        plan.place.trust.chmod(0o644)
        write_java_trust(plan.place.trust)


def _config(plan: ContainerPlan, orphan_grace: float) -> dict[str, object]:
    """What the agent is told; which shell the image has it finds out itself."""
    lifetime = plan.spec.lifetime
    bounds = groups.of_each_process(plan.limits, whole_box=True)
    if plan.becomes is None:
        del bounds["RLIMIT_NPROC"]  # it would count what that user runs on the host; the engine bounds the container's
    return {
        "boot_id": plan.boot_id,
        "ttl": lifetime.seconds if isinstance(lifetime, TimeToLive) else None,
        "orphan_grace": orphan_grace,
        "bare": False,
        "commands": {
            "shell": "",
            "directory": DATA,
            "env": environment_of(plan.spec, plan.image.variables),
            "limits": {name: (most, most) for name, most in bounds.items()},
            "user": None,
        },
        "sizes": {
            "memory_mb": (plan.limits.memory or 0) >> 20,
            "processes": plan.limits.processes,
            "file_size": plan.limits.file_size,
        },
        "walls": None,
    }


def environment_of(spec: SandboxSpec, image: Mapping[str, str]) -> dict[str, str]:
    """The variables of every command: of the image's those that command neither a shell nor the loader, those of any sandbox over them,
    and the spec's over both."""
    own = variables_of_commands(image)
    found = user_environment.environment(ENVIRONMENT, SandboxSpec(name=spec.name), None)
    path = own.get("PATH") or user_environment.SYSTEM_PATH
    return {**own, **found, "PATH": f"{path}:{HOME}/.local/bin", **spec.env}


def agents_variables(image: Mapping[str, str]) -> dict[str, str]:
    """Those of the container's first process: the engine adds an image's own, which are emptied, for they may command the loader."""
    return {**dict.fromkeys(image, ""), "PATH": user_environment.SYSTEM_PATH, "LANG": "C.UTF-8"}


def refuse_volumes(image: EngineImage, targets: Iterable[str]) -> None:
    """Raises BootFailed for a volume of the image at or above one of our places, where nothing else could be shown."""
    for volume in image.volumes:
        for target in targets:
            if f"{target}/".startswith(f"{volume.rstrip('/')}/"):
                raise BootFailed(
                    f"the image {image.reference} has a volume at {volume}, where a sandbox has {target}. Choose another."
                )


def asked_of_engine(plan: ContainerPlan, settings: DockerSettings) -> dict[str, Any]:
    """The body of the engine's `ContainerCreate`. Blocking, where the agent's Python was not copied yet."""
    python, mounts = python_beside_an_image(settings.home / "shared")
    is_owned = not isinstance(plan.spec.lifetime, TimeToLive)
    refuse_volumes(
        plan.image, (*plan.files, *plan.spec.read_only, TEMPORARY, process_one.AGENT, "/etc", "/proc", "/sys", "/dev")
    )
    labels = {HOME_LABEL: settings.home_digest, NAME_LABEL: plan.spec.name, OWNED_LABEL: str(is_owned).lower()}
    return {
        "Image": plan.image.reference,
        "Hostname": user_environment.HOST_NAME,
        "User": "0:0" if plan.becomes is not None else f"{plan.owner}:{os.getegid()}",
        "Entrypoint": [*python, "-I", "-S", "-c", process_one.program()],
        "Cmd": [],
        "Env": [f"{name}={value}" for name, value in agents_variables(plan.image.variables).items()],
        "Healthcheck": {"Test": ["NONE"]},  # an image's own would run as the container's root, beside the agent
        "WorkingDir": "/",
        "Labels": labels,
        "StopSignal": "SIGKILL",
        "HostConfig": _host_config(plan, zip(map(Path, mounts[1::3]), mounts[2::3], strict=True)),
    }


def _host_config(plan: ContainerPlan, agent: Iterable[tuple[Path, str]]) -> dict[str, Any]:
    limits = plan.limits
    return {
        "Mounts": list(_mounts(plan, agent)),
        "NetworkMode": "none",
        "IpcMode": "none" if plan.spec.walls.is_read_only else "private",  # "none" has no /dev/shm and no /dev/mqueue
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "CapAdd": _BECOMES_A_USER if plan.becomes is not None else [],
        "SecurityOpt": ["no-new-privileges"],
        "Memory": limits.memory or 0,
        "MemorySwap": limits.memory or 0,
        "PidsLimit": (limits.processes + _SPARE_PROCESSES) if limits.processes else 0,
        "CpuPeriod": _CPU_PERIOD,
        "CpuQuota": max(1000, int((limits.cpus or 0) * _CPU_PERIOD)) if limits.cpus else 0,
        "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}, *_own_bounds()],
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "64k", "max-file": "1"}},
    }


def _own_bounds() -> Iterator[dict[str, Any]]:
    """Those of the agent; each command gets its own. podman asks for a million of both by itself, which not every host gives."""
    for name, number, wanted in (
        ("nofile", resource.RLIMIT_NOFILE, 1 << 20),
        ("nproc", resource.RLIMIT_NPROC, 1 << 14),
    ):
        hard = resource.getrlimit(number)[1]
        most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        yield {"Name": name, "Soft": most, "Hard": most}


def _mounts(plan: ContainerPlan, agent: Iterable[tuple[Path, str]]) -> Iterator[dict[str, Any]]:
    place, is_read_only = plan.place, plan.spec.walls.is_read_only
    yield _bind(place.agent, process_one.AGENT)
    for source, target in agent:
        yield _bind(source, target, read_only=True)
    yield _bind(place.temporary, TEMPORARY, read_only=is_read_only)
    for name in sorted(path.name for path in place.settings.iterdir()):
        yield _bind(place.settings / name, f"/etc/{name}", read_only=True)
    if Offer.NETWORK_POLICY in plan.spec.needs:
        yield _bind(place.trust.parent, os.path.dirname(TRUST_FILE), read_only=True)
    for inside, directory in plan.files.items():
        yield _bind(directory, inside, read_only=is_read_only)
    for inside, directory in plan.spec.read_only.items():
        yield _bind(directory, inside, read_only=True)
    # The engine would make a directory of its own there, which can be written and that nothing bounds.
    for volume in plan.image.volumes:
        yield _bind(place.empty, volume, read_only=True)


def _bind(source: Path, target: str, *, read_only: bool = False) -> dict[str, Any]:
    bound = {"Propagation": "private"}
    return {
        "Type": "bind",
        "Source": str(source.absolute()),
        "Target": target,
        "ReadOnly": read_only,
        "BindOptions": bound,
    }


def lasting_files(spec: SandboxSpec, place: ContainerPaths) -> dict[str, Path]:
    """Its lasting roots on the host, by their path inside."""
    lasting = spec.directory or place.directory
    return {path: lasting / name for path, name in LASTING.items()}


def hold_lifeline(place: ContainerPaths) -> int:
    """The descriptor whose end ends the container."""
    return os.open(place.lifeline, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)


def is_listening(place: ContainerPaths) -> bool:
    return place.socket.exists()


def shell_found(place: ContainerPaths) -> str:
    """The path of the shell that the image has, as the container's first process found it. Raises BootFailed where it says another."""
    found = (place.agent / "shell").read_text()
    if found not in process_one.SHELLS:
        raise BootFailed("its first process did not say which shell it has.")
    return found
