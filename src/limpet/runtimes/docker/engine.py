"""The engine's API by its own library, off the loop, with its errors in our words.

https://docs.docker.com/reference/api/engine/ (version 1.40 and newer); podman serves the same (podman-system-service(1)).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio
from anyio import CapacityLimiter, to_thread

from limpet.core.errors import BootFailed, RuntimeUnavailable
from limpet.runtimes.docker.settings import HOME_LABEL, NAME, NAME_LABEL, OWNED_LABEL

_ANSWERS_WITHIN = 60.0  # seconds of silence of the engine; a pull answers as it goes on
_CALLS = 8  # at once
_PULLS = 2  # at once
_LOGGED = 20  # lines

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """What the engine says of itself: `name` is "Docker" or "Podman"; what it can bound; whether it runs without root."""

    name: str
    version: str
    bounds_memory: bool
    bounds_processes: bool
    bounds_cpus: bool
    is_rootless: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerState:
    """A container as the engine shows it. `pid` is that of its first process on this host, 0 where it does not run."""

    id: str
    sandbox: str
    status: str
    pid: int
    ran_out_of_memory: bool
    ends_with_owner: bool
    created: str

    @property
    def runs(self) -> bool:
        return self.status in ("running", "paused")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineImage:
    """An image that the engine has: the variables that it sets, and the paths of its volumes."""

    reference: str
    variables: Mapping[str, str] = field(default_factory=dict)
    volumes: tuple[str, ...] = ()


class Engine:
    """One engine. Methods raise RuntimeUnavailable where it does not answer, BootFailed where it refuses."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._calls = CapacityLimiter(_CALLS)
        self._pulling = CapacityLimiter(_PULLS)
        self._pulls: dict[str, anyio.Lock] = {}
        self._api: Any = None

    async def connect(self) -> EngineInfo:
        """Ask it what it is. Raises RuntimeUnavailable, also where the library is missing or the engine is on another host."""
        if urlsplit(self._address).scheme not in ("unix", "http+unix"):
            raise RuntimeUnavailable(
                NAME,
                f"{self._address} is on another host, and a container's files are directories of this one.",
                "Run the gateway beside the engine, and set DOCKER_HOST to its socket, such as unix:///var/run/docker.sock.",
            )
        return await self._call(self._connected)

    async def close(self) -> None:
        if self._api is not None:
            await to_thread.run_sync(self._api.close)

    async def image(self, reference: str) -> EngineImage:
        """An image, which is pulled first where the engine does not have it, once for all who want it. Raises BootFailed."""
        found = await self._call(self._find_image, reference)
        if found is None:
            async with self._pulls.setdefault(reference, anyio.Lock()):
                # Threads of their own: a registry that is slow holds up no other call.
                found = await to_thread.run_sync(self._translated, self._pulled, reference, limiter=self._pulling)
        config = found.get("Config") or {}
        variables = dict(line.partition("=")[::2] for line in config.get("Env") or ())
        return EngineImage(reference=reference, variables=variables, volumes=tuple(sorted(config.get("Volumes") or ())))

    async def has_image(self, reference: str) -> bool:
        return await self._call(self._find_image, reference) is not None

    async def create(self, name: str, **what: Any) -> str:
        """A new container that does not run yet; its id. `what` is as in the engine's `ContainerCreate`, host configuration included."""
        return str(await self._call(lambda: self._api.create_container_from_config(what, name=name)["Id"]))

    async def start(self, container: str) -> ContainerState:
        await self._call(lambda: self._api.start(container))
        state = await self.inspect(container)
        if state is None or state.pid == 0:
            raise BootFailed(await self.complaint(container) or "its first process ended at once.")
        return state

    async def inspect(self, container: str) -> ContainerState | None:
        """None where there is no such container."""
        return await self._call(self._inspect, container)

    async def complaint(self, container: str) -> str:
        """The last that its first process said; "" where nothing can be had."""
        with suppress(BootFailed, RuntimeUnavailable):
            said = await self._call(lambda: self._api.logs(container, stdout=True, stderr=True, tail=_LOGGED))
            return bytes(said).decode(errors="replace").strip()[-2000:]
        return ""

    async def remove(self, container: str) -> None:
        """End it and remove it; quiet where it is gone."""
        await self._call(self._remove, container)

    async def all(self, home: str) -> Sequence[ContainerState]:
        """Every container of that home, whether it runs or not."""
        return await self._call(self._all, home)

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        return await to_thread.run_sync(self._translated, function, *arguments, limiter=self._calls)

    def _translated(self, function: Callable[..., T], *arguments: Any) -> T:
        import docker.errors  # noqa: PLC0415 (an extra)
        import requests  # noqa: PLC0415

        try:
            return function(*arguments)
        except docker.errors.APIError as error:
            raise BootFailed(f"the engine refused: {_explained(error)}") from error
        except (docker.errors.DockerException, requests.RequestException) as error:
            reason = f"no engine answers at {self._address}: {_innermost(error)}."
            mends = "apt-get install docker.io, start its daemon, and let this user reach its socket (group docker); or set DOCKER_HOST."
            raise RuntimeUnavailable(NAME, reason, mends) from error

    def _connected(self) -> EngineInfo:
        import docker  # noqa: PLC0415

        self._api = docker.APIClient(base_url=self._address, version="auto", timeout=_ANSWERS_WITHIN)
        version, info = self._api.version(), self._api.info()
        names = [part.get("Name", "") for part in version.get("Components") or ()]
        is_podman = any("podman" in name.lower() for name in names)
        return EngineInfo(
            name="Podman" if is_podman else "Docker",
            version=str(version.get("Version", "")),
            bounds_memory=bool(info.get("MemoryLimit")),
            bounds_processes=bool(info.get("PidsLimit")),
            bounds_cpus=bool(info.get("CpuCfsQuota") or info.get("CPUCfsQuota")),
            is_rootless=any("rootless" in option for option in info.get("SecurityOptions") or ()),
        )

    def _find_image(self, reference: str) -> dict[str, Any] | None:
        from docker.errors import ImageNotFound  # noqa: PLC0415

        try:
            found: dict[str, Any] = self._api.inspect_image(reference)
        except ImageNotFound:
            return None
        return found

    def _pulled(self, reference: str) -> dict[str, Any]:
        if (found := self._find_image(reference)) is not None:
            return found
        from docker.errors import APIError  # noqa: PLC0415

        try:
            for line in self._api.pull(reference, stream=True, decode=True):
                if "error" in line:
                    raise BootFailed(f"the image {reference} could not be pulled: {line['error']}")
        except APIError as error:
            raise BootFailed(f"the image {reference} could not be pulled: {_explained(error)}") from error
        if (found := self._find_image(reference)) is None:
            raise BootFailed(f"the engine has no image {reference}, and pulling it brought none.")
        return found

    def _inspect(self, container: str) -> ContainerState | None:
        from docker.errors import NotFound  # noqa: PLC0415

        try:
            found = self._api.inspect_container(container)
        except NotFound:
            return None
        state, labels = found.get("State") or {}, (found.get("Config") or {}).get("Labels") or {}
        return ContainerState(
            id=found["Id"],
            sandbox=labels.get(NAME_LABEL, ""),
            status=state.get("Status", ""),
            pid=int(state.get("Pid") or 0),
            ran_out_of_memory=bool(state.get("OOMKilled")),
            ends_with_owner=labels.get(OWNED_LABEL) == "true",
            created=found.get("Created", ""),
        )

    def _remove(self, container: str) -> None:
        from docker.errors import APIError, NotFound  # noqa: PLC0415

        try:
            self._api.remove_container(container, force=True, v=True)
        except NotFound:
            return
        except APIError as error:
            if error.status_code != 409:  # it is being removed already
                raise

    def _all(self, home: str) -> Sequence[ContainerState]:
        rows = self._api.containers(all=True, filters={"label": f"{HOME_LABEL}={home}"})
        found = (self._inspect(row["Id"]) for row in rows)
        return [state for state in found if state is not None]


def _explained(error: Any) -> str:
    return str(error.explanation or error).strip().rstrip(".") + "."


def _innermost(error: BaseException) -> str:
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return str(error) or type(error).__name__
