"""Tools that models use work unchanged through a door, by its proxy and without: against a server of files, over TLS."""

import ssl
import subprocess
import threading
import zipfile
from collections.abc import Iterator, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

import limpet
from tests.support.runtimes import opened

pytestmark = pytest.mark.anyio
GOOD = "files.good.example"
PROXIES = "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY; "


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """The test reads what the tools say."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[int, str]]:
    """A git repository and an index of Python packages, over TLS; its port, and its authority."""
    root = tmp_path / "root"
    _git(root / "work", "init", "-q", "-b", "main")
    (root / "work/file").write_text("cloned")
    _git(root / "work", "add", "file")
    _git(root / "work", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "first")
    _git(root, "clone", "-q", "--bare", "work", "repo.git")
    _git(root / "repo.git", "update-server-info")
    (root / "simple/tiny").mkdir(parents=True)
    with zipfile.ZipFile(root / "simple/tiny/tiny-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "print('installed')\n")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr(
            "tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    (root / "simple/tiny/index.html").write_text('<a href="tiny-1.0-py3-none-any.whl">tiny-1.0-py3-none-any.whl</a>')
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(GOOD).configure_cert(context)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root))) as listener:
        listener.socket = context.wrap_socket(listener.socket, server_side=True)
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield listener.server_address[1], authority.cert_pem.bytes().decode()
        listener.shutdown()
        thread.join()


def _git(directory: Path, *words: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", *words], cwd=directory, check=True, capture_output=True)


@pytest.mark.parametrize("unset", ["", PROXIES], ids=["by proxy", "transparently"])
async def test_git_pip_curl_python_and_node_reach_an_allowed_host(
    home: Path, server: tuple[int, str], unset: str
) -> None:
    port, authority = server

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    url = f"https://{GOOD}:{port}"
    network = limpet.Network(hosts=[GOOD], ports=[port], networks=["127.0.0.0/8"], resolve=resolve)
    variables = "SSL_CERT_FILE GIT_SSL_CAINFO CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE PIP_CERT".split()
    trusted = dict.fromkeys(variables, "/mnt/data/ca")
    tools = {
        "curl": f"curl -sS {url}/work/file",
        "git": f"git clone -q {url}/repo.git cloned && cat cloned/file",
        "pip": f"python3 -m pip install -q --no-cache-dir --target . -i {url}/simple tiny && python3 -c 'import tiny'",
        "python": f"python3 -c 'import urllib.request as u; print(u.urlopen(\"{url}/work/file\").read().decode())'",
        "node": f"node -e 'fetch(\"{url}/work/file\").then(r => r.text()).then(console.log)'",
    }  # fmt: skip
    async with (
        opened("bubblewrap", home) as runtime,
        limpet.open_workspace(runtime=runtime, network=network, env=trusted) as box,
    ):
        await box.files.write("/mnt/data/ca", authority.encode())
        there = {
            name: command
            for name, command in tools.items()
            if (await box.run(f"command -v {command.split()[0]}")).exit_code == 0
        }
        results = {name: await box.run(f"{unset}{command}", timeout=60) for name, command in there.items()}
    assert {"curl", "git", "python"} <= set(results)
    words = {"pip": b"installed"}
    assert {name: (result.stdout.strip(), result.exit_code) for name, result in results.items()} == {
        name: (words.get(name, b"cloned"), 0) for name in results
    }, {name: result.stderr[-500:] for name, result in results.items()}
