"""What bounds a box unless its spec says otherwise. Values only; a runtime that can hold them takes them as its settings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from limpet.core.ports import Limits
from limpet.core.settings import Between, ImageName, Megabytes, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxSettings:
    """The keys of `[features.shell]` that bound a box, each where the box's spec says nothing else.

    `image` is an absolute path of a root file system, an OCI layout or an archive, or a relative one that is the name of an image in
    a registry; None is the host's programs. `plain_http_registries` may be asked for images without TLS. `cpus` are cores;
    `processes` counts threads too; `open_files` are those of each process; `file_size_mb` None is any size. Where less than
    `disk_floor_mb` is free on the host's disk, what writes in boxes is stopped.
    """

    image: Annotated[Path | None, ImageName()] = None
    plain_http_registries: tuple[str, ...] = ()
    cpus: Annotated[float, Between(0.01, 1024)] = 1.0
    memory_mb: Megabytes = 512
    processes: Annotated[int, Between(16, 1_000_000)] = 256
    open_files: Annotated[int, Between(32, 1_000_000)] = 4096
    file_size_mb: Positive | None = None
    disk_mb: Megabytes = 10_240
    disk_floor_mb: Annotated[int, Between(0)] = 512

    def limits(self, asked: Limits) -> Limits:
        """The limits of a box that was asked for with these."""
        own_file_size = None if self.file_size_mb is None else self.file_size_mb << 20
        return Limits(
            memory=asked.memory if asked.memory is not None else self.memory_mb << 20,
            cpus=asked.cpus if asked.cpus is not None else self.cpus,
            processes=asked.processes if asked.processes is not None else self.processes,
            disk=asked.disk if asked.disk is not None else self.disk_mb << 20,
            file_size=asked.file_size if asked.file_size is not None else own_file_size,
            open_files=asked.open_files if asked.open_files is not None else self.open_files,
        )
