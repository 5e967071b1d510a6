"""What a box tries: names that would carry data out of it, and URLs that lead elsewhere than they seem to. One host is allowed, HOST."""

HOST = "files.good.example"

# As labels, in every encoding, in zones of others and below the allowed name, and as what a resolver would make of odd bytes.
NAMES = [
    *(f"{letter * length}.evil.example" for letter in "ax" for length in (1, 20, 63)),
    *(f"{part}.x{number}.{HOST}" for number, part in enumerate(["c2VjcmV0", "736563726574", "ONSWG4TFOQ", "s-e-c-r-e-t"])),
    *(f"secret.{number}.{zone}" for number in range(6) for zone in ("evil.example", "good.example.evil.example", "10.0.0.1.nip.example")),
    *(f"{HOST}{ending}" for ending in (".evil.example", "x", ".com", ".-", "%00.evil.example", "\\.evil.example")),
    *"good.example evil localhost.evil.example 1.0.0.10.in-addr.arpa _ldap._tcp.evil.example xn--e1aybc.evil.example".split(),
    *(".".join(["a" * 60] * 4), "A.EVIL.EXAMPLE", "a" * 64 + ".evil.example", "-.evil.example", "*.evil.example"),
]  # fmt: skip

# Hosts as a URL may have them, for plain HTTP through the door and for files by URL.
HOSTS = [
    "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "017700000001", "0177.0.0.1", "0", "0.0.0.0", "[::1]", "[::]",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[fe80::1]", "[fe80::1%25lo]",
    "[fd00::1]", "[fec0::1]", "[2002:7f00:1::]", "169.254.169.254", "169.254.169.254.", "2852039166", "0xa9fea9fe",
    "168.63.129.16", "100.100.100.200", "100.64.0.1", "192.168.0.1", "10.0.0.1", "172.16.0.1", "198.18.0.1", "192.0.0.1",
    "224.0.0.1", "255.255.255.255", "240.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1", "localhost", "LOCALHOST.", "ip6-localhost",
    "metadata.google.internal", "metadata", "host.internal", "db.host.internal", "evil.example", f"{HOST}.evil.example",
    f"evil.example#{HOST}", f"evil.example?{HOST}", f"evil.example\\{HOST}", f"{HOST}@evil.example", f"{HOST}%2e.evil.example",
    f"{HOST}%00.evil.example", f"x{HOST}", "*.good.example", "", "a" * 260,
]  # fmt: skip
