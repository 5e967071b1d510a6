"""git over https clones and pushes with a credential that is not in the box: the recipes of docs/egress.md against git's own server."""

import base64
import os
import ssl
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

import limpet
from tests.support.runtimes import opened

pytestmark = pytest.mark.anyio
HOST = "git.good.example"
VALUE = "g1t-t0ken+/of.the&host"
BACKEND = Path("/usr/lib/git-core/git-http-backend")
# As they stand in docs/egress.md, for git.example.com.
AS_A_HEADER = """\
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=http.https://git.example.com/.extraHeader
export GIT_CONFIG_VALUE_0="Authorization: Basic $(printf 'x-access-token:%s' "$TOKEN" | base64 -w0)"
"""
AS_A_HELPER = """\
git config --global credential.https://git.example.com.helper \\
  '!f() { echo username=x-access-token; echo "password=$TOKEN"; }; f'
"""
MANUAL = Path(__file__).parents[2] / "docs" / "egress.md"


@contextmanager
def git_server(root: Path) -> Iterator[tuple[int, ssl.SSLContext, list[str]]]:
    """git-http-backend over TLS, for those that send the value; its port, its trust, and the credentials that came."""
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", root / "repo.git"], check=True)
    subprocess.run(["git", "-C", root / "repo.git", "config", "http.receivepack", "true"], check=True)
    came: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            credentials = self.headers.get("Authorization", "")
            came.append(credentials)
            if base64.b64decode(credentials.removeprefix("Basic ")) != f"x-access-token:{VALUE}".encode():
                self.send_response(401)
                self.send_header("WWW-Authenticate", "Basic")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            done = subprocess.run(
                [BACKEND],
                input=self._body(),
                capture_output=True,
                check=True,
                env={
                    "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(root), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
                    "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_USER": "x-access-token",
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""), "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
                },
            )  # fmt: skip
            head, _, body = done.stdout.partition(b"\r\n\r\n")
            fields = [line.decode().partition(": ") for line in head.split(b"\r\n")]
            self.send_response(int({name: value for name, _, value in fields}.get("Status", "200").split()[0]))
            for name, _, value in fields:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def log_message(self, format: str, *words: object) -> None:
            """Quiet."""

    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, ssl.create_default_context(cadata=authority.cert_pem.bytes().decode()), came
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.skipif(not BACKEND.exists(), reason="git's own HTTP server is not installed here")
@pytest.mark.parametrize(
    "recipe, hosts", [(AS_A_HEADER, ()), (AS_A_HELPER, (HOST,))], ids=["for_a_secrets_host", "for_an_allowed_host"]
)
async def test_git_clones_and_pushes_with_a_credential_that_is_not_in_the_box(
    home: Path, tmp_path: Path, recipe: str, hosts: tuple[str, ...]
) -> None:
    assert recipe in MANUAL.read_text()

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    with git_server(tmp_path) as (port, trust, came):
        network = limpet.Network(hosts=hosts, ports=[port], networks=["127.0.0.0/8"], resolve=resolve, tls=trust)
        secrets = {"TOKEN": limpet.DomainSecret(value=limpet.Secret(VALUE), hosts=(HOST,))}
        async with (
            opened("bubblewrap", home) as runtime,
            limpet.open_workspace(runtime=runtime, network=network, secrets=secrets) as box,
        ):
            address = f"{HOST}:{port}"
            work = "echo pushed > file && git add file && git commit -qm first && git push -q origin HEAD:main"
            done = await box.run(
                f"{recipe.replace('git.example.com', address)}git clone -q https://{address}/repo.git a && cd a && {work} && cd .. && "
                f"git clone -q https://{address}/repo.git b && cat b/file"
            )
            assert (done.exit_code, done.stdout) == (0, b"pushed\n"), done.stderr
            files = [path for path in home.rglob("*") if path.is_file()]
            assert [path for path in files if VALUE.encode() in path.read_bytes()] == []
    pushed = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", tmp_path / "repo.git", "show", "main:file"],
        capture_output=True,
        check=True,
    )
    assert pushed.stdout == b"pushed\n"
    assert "Basic " + base64.b64encode(f"x-access-token:{VALUE}".encode()).decode() in came
