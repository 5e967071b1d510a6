"""What models use reaches an allowed host unchanged, by its box's proxy and without, and nothing else does: real boxes of `limpet run`, and
TLS servers, package indexes and a hostile name server in a network namespace of their own. What left is what arrived there."""

import base64
import gzip
import hashlib
import io
import json
import re
import shlex
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from tests.egress.hostile import HOSTS, NAMES
from tests.egress.test_host_patterns import HOSTILE, SAME
from tests.egress.test_http_heads import SMUGGLED
from tests.support.homes import home_apart
from tests.support.internet import Internet, internet
from tests.support.internet_servers import HERE
from tests.support.users import user_of_this_worker

# All tools run in the fixture, one after the other: 16 s on a quiet machine, minutes on a busy one.
pytestmark = pytest.mark.timeout(900)
FILES = "files.good.example"
URL = f"https://{FILES}"
SCRIPT = Path(__file__).with_name("tools_through_a_door.sh").read_text()
ATTACKS = Path(__file__).with_name("attacks_on_a_door.py").read_text()
TOOLS = "curl curl-plain wget git pip uv npm urllib requests httpx2 aiohttp node-fetch node-https apt cargo java go openssl".split()
OF_A_USER = "curl git pip uv npm node-fetch openssl".split()  # as root all; what differs is how the door is opened
KNOW_NO_PROXY = {"java", "openssl"}
ALWAYS = {"curl", "git", "urllib"}  # which every machine that runs these tests has
# What a name of the list leads to is no public address; the box is told so, or that it could not be reached.
POISONED = "private metadata loopback mixed shared any host nothing".split()
REBINDING = (
    "rebinding.good.example"  # every other answer is a private address: a connection meets one, whole, or the other
)
OTHERS = [
    "curl -sS http://evil.example/",
    f"curl -sSL {URL}/redirect?http://evil.example/ --cacert ca",
    f"curl -sSL {URL}/redirect?http://10.0.0.1/ --cacert ca",
    f"curl -sS --noproxy '*' --connect-to {FILES}:443:93.184.216.34:443 {URL}/file --cacert ca",
    "curl -sS --noproxy '*' http://93.184.216.34/file",
    "curl -sS http://93.184.216.34/file",
    f"curl -sS --noproxy '*' -H 'Host: evil.example' http://{FILES}/file",
    f"curl -sS --dns-servers 93.184.216.34 --noproxy '*' {URL}/file --cacert ca",
    "python3 -c 'import socket; socket.create_connection((\"93.184.216.34\", 443), 5)'",
    "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(bytes(20), (\"93.184.216.34\", 53))'",
]
LOOKED_UP = """import socket, sys
for name in sys.argv[1:]:
    try: print("FOUND", name, socket.getaddrinfo(name, 443))
    except (OSError, UnicodeError): pass"""


@dataclass(frozen=True)
class Outcome:
    """How a tool ended by the proxy, and without."""

    codes: dict[str, str]
    outputs: dict[str, str]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    with internet(tmp_path_factory.mktemp("internet") / "net", FILES, "*.good.example", "evil.example") as net:
        (net.root / "file").write_text("content\n")
        _repository(net.root)
        _python_index(net.root / "simple/tiny")
        _npm_index(net.root / "npm")
        _cargo_index(net.root / "cargo")
        yield net


@pytest.fixture(scope="module")
def of_root(net: Internet) -> dict[str, Outcome]:
    return _outcomes(net, TOOLS, None)


@pytest.fixture(scope="module")
def of_user(net: Internet) -> dict[str, Outcome]:
    return _outcomes(net, OF_A_USER, user_of_this_worker())


def _outcomes(net: Internet, tools: Sequence[str], user: int | None) -> dict[str, Outcome]:
    """What each tool did in one box."""
    with home_apart() as home:
        script = f"URL={URL}; TOOLS='{' '.join(tools)}'; printf %s '{net.trust}' > ca\n{SCRIPT}"
        done = net.limpet("run", "--allow", FILES, "--", script, home=home, user=user, stdin=_brought())
    found: dict[str, Outcome] = {}
    for line in done.stdout.splitlines():
        if line.startswith("@@ "):
            _, tool, mode, code, *output = line.split(" ")
            outcome = found.setdefault(tool, Outcome({}, {}))
            outcome.codes[mode] = code
            outcome.outputs[mode] = base64.b64decode("".join(output)).decode().strip()
    assert found, done.stderr
    return found


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_reaches_an_allowed_host_by_proxy_and_without(of_root: dict[str, Outcome], tool: str) -> None:
    _check(of_root, tool)


@pytest.mark.parametrize("tool", OF_A_USER)
def test_a_tool_reaches_it_from_an_ordinary_users_box_too(of_user: dict[str, Outcome], tool: str) -> None:
    _check(of_user, tool)


def _check(outcomes: dict[str, Outcome], tool: str) -> None:
    outcome = outcomes[tool]
    if tool not in ALWAYS and ("missing" in outcome.codes.values() or "missing" in outcome.outputs.values()):
        pytest.skip(
            f"{tool} is not below /usr of this machine nor among the packages of its tests, so boxes do not have it"
        )
    modes = ["direct"] if tool in KNOW_NO_PROXY else ["proxy", "direct"]
    assert (outcome.codes, outcome.outputs) == (dict.fromkeys(modes, "0"), dict.fromkeys(modes, "content"))


@pytest.mark.parametrize("kind", ["root", "user"])
def test_nothing_else_leaves_a_box_whatever_names_lead_to(net: Internet, kind: str) -> None:
    before = {what: len(net.arrived(what)) for what in ("name", "connection", "request")}
    poisoned = [f"curl -sS http://{name}.good.example/file" for name in POISONED]
    tries = [*(f"{each} --max-time 20" for each in poisoned), *OTHERS]
    script = f"python3 -c {shlex.quote(ATTACKS)}; printf %s '{net.trust}' > ca\n"
    script += "\n".join(f'{{ {each}; }} > out 2>&1; echo "@@ $? $(tail -c 300 out)"' for each in tries)
    script += f"\npython3 -c '{LOOKED_UP}' {' '.join(shlex.quote(name) for name in NAMES)}"
    script += f"\nfor i in 1 2 3 4; do curl -sS http://{REBINDING}/rebound || true; done > /dev/null"
    reachable = {FILES, REBINDING, *(f"{each}.good.example" for each in POISONED)}
    with home_apart() as home:
        allowed = [
            word for name in (FILES, *(f"{each}.good.example" for each in POISONED)) for word in ("--allow", name)
        ]
        user = user_of_this_worker() if kind == "user" else None
        done = net.limpet("run", *allowed, "--", script, home=home, user=user, stdin=_attacks())
    assert done.returncode == 0, done.stderr
    assert "ANSWERED" not in done.stdout
    assert "SHAKEN" not in done.stdout
    assert int(done.stdout.partition("ATTACKS ")[2].partition("\n")[0]) >= 300
    assert "FOUND" not in done.stdout
    assert done.stdout.count("@@ ") == len(tries), done.stdout
    assert "@@ 0 " not in done.stdout, done.stdout  # not even where a refusal was given back
    assert "content" not in done.stdout
    arrived = {what: net.arrived(what)[count:] for what, count in before.items()}
    assert {name["name"] for name in arrived["name"]} <= reachable
    assert {(each["to"], each["port"]) for each in arrived["connection"]} <= {(HERE, 443), (HERE, 80)}
    assert {each["path"].partition("?")[0] for each in arrived["request"]} <= {"/redirect", "/rebound"}


def _attacks() -> bytes:
    """Requests that no door carries, of an allowed host or of none, and names that no handshake may ask for."""
    forms = (
        "GET http://{0}/ HTTP/1.1\r\nHost: {0}",
        f"GET http://{FILES}/ HTTP/1.1\r\nHost: {{0}}",
        "GET / HTTP/1.1\r\nHost: {0}",
    )
    hostile = [each.replace("api.good.example", FILES) for each in HOSTILE if each not in SAME]
    requests = [
        *(f"CONNECT {each}:443 HTTP/1.1\r\nHost: {each}:443\r\n\r\n".encode() for each in hostile),
        *(f"{form.format(host)}\r\n\r\n".encode() for host in HOSTS for form in forms),
        *(each.replace(b"api.good.example", FILES.encode()) for each in SMUGGLED),
    ]  # fmt: skip
    given = {
        "requests": [base64.b64encode(each).decode() for each in requests],
        "names": [*NAMES, "evil.example", "10.0.0.1", "host.internal", "www.files.good.example"],
        "tunnel": f"CONNECT {FILES}:443 HTTP/1.1\r\nHost: {FILES}:443\r\n\r\n",
    }
    return json.dumps(given).encode()


def _repository(root: Path) -> None:
    (root / "work").mkdir()
    (root / "work/file").write_text("content\n")
    author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (
        ("-C", str(root / "work"), "init", "-q", "-b", "main"),
        ("-C", str(root / "work"), "add", "file"),
        ("-C", str(root / "work"), *author, "commit", "-qm", "first"),
        ("clone", "-q", "--bare", str(root / "work"), str(root / "repo.git")),
        ("-C", str(root / "repo.git"), "update-server-info"),
    ):
        subprocess.run(["git", *words], check=True, capture_output=True)


def _python_index(root: Path) -> None:
    root.mkdir(parents=True)
    name = "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(root / name, "w") as wheel:
        wheel.writestr("tiny.py", "print('content')\n")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr(
            "tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    (root / "index.html").write_text(f'<a href="{name}">{name}</a>')


def _npm_index(root: Path) -> None:
    """A registry with one package, as npm asks for it: its document, and the archive that this names."""
    root.mkdir()
    data = gzip.compress(
        _archive(
            {
                "package/package.json": '{"name": "tiny", "version": "1.0.0"}',
                "package/index.js": "console.log('content')",
            }
        )
    )
    (root / "tiny-1.0.0.tgz").write_bytes(data)
    integrity = f"sha512-{base64.b64encode(hashlib.sha512(data).digest()).decode()}"
    version = {
        "name": "tiny",
        "version": "1.0.0",
        "dist": {"tarball": f"{URL}/npm/tiny-1.0.0.tgz", "integrity": integrity},
    }
    document = {"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    (root / "tiny").write_text(json.dumps(document))


def _cargo_index(root: Path) -> None:
    """A sparse index with one crate."""
    data = gzip.compress(
        _archive(
            {
                "tiny-1.0.0/Cargo.toml": '[package]\nname = "tiny"\nversion = "1.0.0"\n',
                "tiny-1.0.0/src/lib.rs": "// content\n",
            }
        )
    )
    crate = {"name": "tiny", "vers": "1.0.0", "deps": [], "features": {}, "yanked": False}
    (root / "ti/ny").mkdir(parents=True)
    (root / "crates/tiny/1.0.0").mkdir(parents=True)
    (root / "crates/tiny/1.0.0/download").write_bytes(data)
    (root / "config.json").write_text(json.dumps({"dl": f"{URL}/cargo/crates"}))
    (root / "ti/ny/tiny").write_text(json.dumps({**crate, "cksum": hashlib.sha256(data).hexdigest()}))


def _archive(files: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


def _brought() -> bytes:
    """An archive of programs and packages that boxes do not have by themselves, as far as this machine has them."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        if (uv := shutil.which("uv", path="/opt/uv/bin:/usr/local/bin:/usr/bin")) is not None:
            archive.add(Path(uv).resolve(), "uv")
        for name in _with_requirements("requests", "httpx2", "aiohttp"):
            for file in distribution(name).files or ():
                if not str(file).startswith("..") and "__pycache__" not in str(file):
                    archive.add(str(file.locate()), str(file))
    return packed.getvalue()


def _with_requirements(*names: str) -> list[str]:
    found: dict[str, None] = {}
    left = list(names)
    while left:
        name = left.pop()
        if name in found:
            continue
        try:
            needed = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        found[name] = None
        left += [match[0] for each in needed if "extra" not in each and (match := re.match(r"[\w.-]+", each))]
    return list(found)
