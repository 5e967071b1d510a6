"""What programs read to know whom to trust holds the authority of a box's door: each asks a secret's host, with a real server behind."""

from collections.abc import Sequence
from pathlib import Path

import pytest

import limpet
from tests.support.doors import trusting, upstream
from tests.support.runtimes import opened

pytestmark = pytest.mark.anyio
HOST, VALUE = "api.good.example", "s3cr3t-of-the-stores"
GET_JAVA = """public class Get {
  public static void main(String[] words) throws Exception {
    var connection = new java.net.URL(words[0]).openConnection();
    connection.setRequestProperty("X-Key", System.getenv("TOKEN"));
    System.out.write(connection.getInputStream().readAllBytes());
    System.out.flush();
  }
}
"""
PROGRAMS = {
    "curl": 'curl -sS -H "X-Key: $TOKEN" URL',
    "wget": 'wget -qO- --header "X-Key: $TOKEN" URL',
    "git": 'git -c http.extraHeader="X-Key: $TOKEN" ls-remote URL; echo hello',
    "python3": "python3 -c 'import os, urllib.request as u; "
    'print(u.urlopen(u.Request("URL", headers={"X-Key": os.environ["TOKEN"]})).read().decode())\'',
    "pip": "python3 -c 'import os, pip._vendor.requests as r; "
    'print(r.get("URL", headers={"X-Key": os.environ["TOKEN"]}).text)\'',
    "node": 'node -e \'fetch("URL", {headers: {"X-Key": process.env.TOKEN}}).then(r => r.text()).then(console.log)\'',
    "javac": "java Get.java URL",
    "openssl": 'printf "GET / HTTP/1.0\\r\\nHost: HOST\\r\\nX-Key: $TOKEN\\r\\n\\r\\n" '
    "| openssl s_client -quiet -verify_return_error -connect HOST -servername NAME",
}


async def test_each_programs_store_has_the_doors_authority(home: Path) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    missing = [name for name in PROGRAMS if not Path("/usr/bin", name).exists()]
    with upstream(HOST) as up:
        network = limpet.Network(ports=[up.port], networks=["127.0.0.0/8"], resolve=resolve, tls=trusting(up))
        secrets = {"TOKEN": limpet.DomainSecret(value=limpet.Secret(VALUE), hosts=(HOST,))}
        async with (
            opened("bubblewrap", home) as runtime,
            limpet.open_workspace(runtime=runtime, network=network, secrets=secrets) as box,
        ):
            await box.files.write("Get.java", GET_JAVA.encode())
            for name, script in PROGRAMS.items():
                if name in missing:
                    continue
                before = len(up.seen)
                said = script.replace("HOST", f"{HOST}:{up.port}").replace("URL", f"https://{HOST}:{up.port}/")
                result = await box.run(said.replace("NAME", HOST))
                assert result.stdout.strip().endswith(b"hello"), (name, result.stdout, result.stderr)
                sent = b"".join(up.seen[before:])
                assert f"x-key: {VALUE}".encode() in sent.replace(b"X-Key", b"x-key"), (name, result.stderr)
    if missing:
        pytest.skip(f"the others do; this machine has no {', '.join(missing)} in /usr/bin, so its boxes have none")
