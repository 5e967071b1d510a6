"""The runtime `docker`: a container of Docker's Engine, or of podman's compatible socket, with our agent as its first process."""

from limpet.runtimes.docker.runtime import DockerRuntime

__all__ = ["DockerRuntime"]
