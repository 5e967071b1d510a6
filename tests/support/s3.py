"""A server that speaks S3, on a free port of this machine, for the time of a block. Other people's, so that it shares no misreading."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from xml.etree import ElementTree

import httpx2
from moto.server import ThreadedMotoServer

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test-secret"}
REGION = "eu-central-1"


@dataclass(frozen=True, slots=True)
class Server:
    """Its address; buckets are made by `bucket`."""

    url: str

    def bucket(self, name: str) -> str:
        """A new, empty one."""
        config = (
            f"<CreateBucketConfiguration><LocationConstraint>{REGION}</LocationConstraint></CreateBucketConfiguration>"
        )
        httpx2.put(f"{self.url}/{name}", content=config, trust_env=False).raise_for_status()
        return name

    def keys(self, bucket: str) -> list[str]:
        """The names of all objects in it."""
        return self._listed(bucket, "Key")

    def sizes(self, bucket: str) -> list[int]:
        """How many bytes each has, the smallest first."""
        return sorted(map(int, self._listed(bucket, "Size")))

    def unfinished(self, bucket: str) -> int:
        """How many uploads in parts were begun and neither finished nor broken off."""
        listed = httpx2.get(f"{self.url}/{bucket}?uploads", trust_env=False).raise_for_status()
        return listed.text.count("<UploadId>")

    def _listed(self, bucket: str, what: str) -> list[str]:
        listed = httpx2.get(f"{self.url}/{bucket}?list-type=2", trust_env=False).raise_for_status()
        elements = ElementTree.fromstring(listed.text).iter()
        return [element.text or "" for element in elements if element.tag.endswith(f"}}{what}")]


@contextmanager
def s3_server() -> Iterator[Server]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield Server(f"http://{host}:{port}")
    finally:
        server.stop()
