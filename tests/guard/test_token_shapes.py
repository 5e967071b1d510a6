"""Tokens of known shape: of each a true one and one that nearly is. All are made up, and put together here from parts."""

import random

from limpet.guard.redaction.redactor import Redaction, Redactor
from limpet.guard.redaction.token_shapes import TOKEN_SHAPES

REDACT = Redactor(Redaction())
_CHOICES = random.Random(7)


def some(count: int, of: str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") -> str:
    """`count` characters, a letter and a digit among the first two."""
    letters = [c for c in of if c.isalpha()]
    digits = [c for c in of if c.isdigit()] or letters
    return (_CHOICES.choice(letters) + _CHOICES.choice(digits) + "".join(_CHOICES.choices(of, k=count)))[:count]


HEX = "0123456789abcdef"
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
BODY = "\n".join(some(64) for _ in range(12)) + "\n" + some(20) + "=="


def pem(kind: str) -> str:
    return f"-----BEGIN {kind}-----\n{BODY}\n-----END {kind}-----"


# name, a token, what nearly is one
TOKENS = [
    *[("github", head + some(36), head + some(35)) for head in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")],
    ("github", "github_pat_" + some(22) + "_" + some(59), "github_pat_" + some(20)),
    ("gitlab", "glpat-" + some(20), "glpat-" + some(19)),
    ("aws", "AKIA" + some(16, UPPER), "AKIA" + some(15, UPPER)),
    ("aws", "ASIA" + some(16, UPPER), "MAKIA" + some(16, UPPER)),
    ("aws", "AKIA" + some(16, UPPER), "AKIA" + some(17, UPPER)),
    ("google", "AIza" + some(35), "AIza" + some(36)),
    ("google", "ya29." + some(60), "ya29." + some(10)),
    ("google", "GOCSPX-" + some(28), "GOCSPX-" + some(20)),
    *[("slack", f"xox{kind}-123456789012-" + some(24), f"xox{kind}-" + some(12)) for kind in "abeprs"],
    ("slack", "xapp-1-" + some(40), "xapp-" + some(10)),
    ("stripe", "sk_live_" + some(24), "sk_live_" + some(12)),
    ("stripe", "rk_live_" + some(24), "pk_live_" + some(24)),
    ("stripe", "whsec_" + some(32), "whsec_" + some(20)),
    ("openai", "sk-" + some(48), "sk-" + some(19)),
    ("openai", "sk-" + some(48), "task-" + some(48)),
    ("openai", "sk-" + some(48), "sk-" + "onlylettersandnodigitsatall"),
    ("openai", "sk-proj-" + some(80) + "-" + some(40) + "_x", "sk-proj-" + some(12)),
    ("openai", "sk-svcacct-" + some(80), "sk-svcacct-" + some(12)),
    ("anthropic", "sk-ant-api03-" + some(90) + "-" + some(4), "sk-ant-" + some(12)),
    ("huggingface", "hf_" + some(34), "hf_" + some(20)),
    ("npm", "npm_" + some(36), "npm_" + some(20)),
    ("pypi", "pypi-AgEIcHlwaS5vcmc" + some(80), "pypi-server-" + some(80)),
    ("sendgrid", "SG." + some(22) + "." + some(43), "SG." + some(22)),
    ("twilio", "SK" + some(32, HEX), "SK" + some(31, HEX)),
    ("digitalocean", "dop_v1_" + some(64, HEX), "dop_v1_" + some(63, HEX)),
    ("jwt", "eyJ" + some(20) + ".eyJ" + some(60) + "." + some(43), "eyJ" + some(60)),
    *[
        ("pem", pem(f"{kind}PRIVATE KEY"), pem(f"{kind}PUBLIC KEY"))
        for kind in ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ")
    ],
    ("pem", pem("PGP PRIVATE KEY BLOCK"), pem("PGP PUBLIC KEY BLOCK")),
    ("pem", pem("PRIVATE KEY").replace("\n", "\\n"), '"-----BEGIN PRIVATE KEY-----" in text and "-----END" in text'),
]

# name, what stands before the secret, the secret, what stands after it, the same without one
LABELLED = [
    ("telegram", "12345678", ":AA" + some(33), "", "1234567:AA" + some(33)),
    (
        "slack",
        "https://hooks.slack.com/services/",
        "T0" + some(9) + "/B0" + some(9) + "/" + some(24),
        "",
        "https://hooks.slack.com/docs",
    ),
    ("bearer", "curl -H 'X: Bearer ", some(24), "'", "the Bearer authentication scheme"),
    ("authorization", "Authorization: Basic ", some(16) + "==", "", "Authorization: Basic and others"),
    ("authorization", '{"Authorization": "Token ', some(40), '"}', '{"Authorization": "Token of thanks"}'),
    ("authorization", "authorization: Bearer ", some(40), "\r\n", "authorization: Bearer $TOKEN1234567"),
    ("url", "postgres://bob:", "s3cr%40t!", "@db.example.com:5432/x", "https://example.com:8080/a@b"),
    ("url", "git clone https://x-access-token:", some(30), "@github.example.com/a/b", "https://bob@example.com/"),
    ("azure", "AccountName=x;", "AccountKey=" + some(86) + "==", ";EndpointSuffix=y", "AccountKey=;"),
    ("aws", "aws_secret_access_key = ", some(40), "\n", "aws_secret_access_key = " + some(7)),
    ("aws", '"SecretAccessKey": "', some(40), '"', '"SecretAccessKey": "the key that belongs to it"'),
    ("assignment", "DB_PASSWORD=", "hunter2-and-more", "\n", "DB_PASSWORD=$OTHER_PASSWORD_1"),
    ("assignment", "export API_KEY=", some(20), " && x", "export API_KEY=changeme"),
    ("assignment", '{"password": "', "c0rrect-horse", '"}', '{"password": "string"}'),
    ("assignment", '{\\"client_secret\\": \\"', some(24), '\\"}', '{"client_secret": null, "a1": "b2c3d4e5"}'),
    ("assignment", "password: ", "hunter2222", "\n", "password: str | None = None\n"),
    ("assignment", "token = '", "a1b2c3d4e5", "'", "token = tokens[12345678]"),
    ("assignment", "GET /x?token=", "a1b2c3d4e5f6g7", "&y=1", "GET /x?token=12&y=1"),
    ("assignment", '"access_token":"', some(20), '"', '"nextToken": "a1b2c3d4e5f6"'),
]


def test_a_token_is_hidden_and_what_nearly_is_one_stays() -> None:
    for name, token, near_miss in TOKENS:
        for before, after in (
            ("", ""),
            ("a ", " b"),
            ('"x\\n', '\\n"'),
            ("X%3D", "&"),
            ("'", "',"),
            ("\x1b[01;31m", "\x1b[m"),
            ("(", ")."),
        ):
            assert REDACT.text(f"{before}{token}{after}") == f"{before}[REDACTED:{name}]{after}"
        assert REDACT.text(f"a {near_miss} b") == f"a {near_miss} b"


def test_what_a_label_says_is_secret_is_hidden_and_the_label_stays() -> None:
    for name, before, secret, after, near_miss in LABELLED:
        assert REDACT.text(f"-- {before}{secret}{after}") == f"-- {before}[REDACTED:{name}]{after}"
        assert REDACT.text(near_miss) == near_miss


# The name, and what stands before the value and after it.
ASSIGNED = [
    ("api_key=", "abc123def456", ""),
    ("export password=", "hunter22", " && x"),
    ("token = ", "abc123def456", "\n"),
    ("token=", "abc123def456", " user=bob"),
    ("password: ", "hunter2hunter2", "  # the old one"),
    ("client_secret = '", "a1b2c3d4e5", "'"),
    ("mysql --password ", "hunter22", " -u root"),
    ("mysql --password=", "hunter22", ""),
    ("cli --token ", "a1b2c3d4", " x"),
    ("cli --api-key '", "a1b2c3d4", "'"),
    ('["--password", "', "hunter22", '"]'),
    ("<password>", "hunter22", "</password>"),
    ("&quot;password&quot;: &quot;", "hunter22", "&quot;"),
    ("password=&#34;", "hunter22", "&#34;"),
    ('{\\\\\\"api_key\\\\\\": \\\\\\"', "a1b2c3d4e5", '\\\\\\"}'),
    ("GET /x?access_token=", "a1b2c3d4e5", "&x=1"),
    ("X-Api-Key: ", "a1b2c3d4e5", ""),
    ("DB_PASS=", "hunter22x", ""),
    ("apiKey: '", "a1b2c3d4e5", "'"),
    ("password=", "a1&b2c3d4", ""),
    ("Server=x;Password=", "abc123!", ";User=y"),
    ("TOKEN := ", "a1b2c3d4e5f6", ""),
    ("(token=", "abc123def456", ")"),
    ("password=", "hunter2", ""),
    # Words are passwords as well.
    ("password=", "swordfish", ""),
    ("export DB_PASSWORD=", "swordfish", " && x"),
    ("export DB_PASSWORD='", "swordfish", "'"),
    ("password: ", "swordfish", "\n"),
    ("  password: ", "correct-horse-battery", "\n  user: x"),
    ("password: '", "swordfish", "'"),
    ('{"password": "', "swordfish", '"}'),
    ('{\\"password\\": \\"', "swordfish", '\\"}'),
    ("<password>", "swordfish", "</password>"),
    ("&quot;password&quot;: &quot;", "swordfish", "&quot;"),
    ("curl -d user=bob&password=", "swordfish", "&x=1"),
    ("Server=x;Uid=sa;Pwd=", "swordfish", ";Database=y"),
    ("mysql --password=", "swordfish", " -u root"),
    ("PASSWORD=", "SwordFish!", ""),
    ("MYSQL_PWD=", "swordfish", " mysql"),
]
# What everyday code, help texts and logs say of such names.
NOT_ASSIGNED = [
    "token=get_token()",
    "password=os.environ['X1']",
    "password=None",
    "token=token2",
    "secret=config.secret",
    "password = input()",
    "token = tokens[0]",
    "token = b64decode(x1)",
    "if token == expected1:",
    "password=$PASSWORD1",
    "token=%s",
    "token: str",
    "password: required",
    "token = response2.token",
    "secret = client.V1Secret(",
    "api_key=settings.API_KEY2",
    "private_key=/etc/ssl/private/key1.pem",
    "--private-key path/to/key1.pem",
    "--password PASSWORD",
    "--token <token>",
    "--password string   the password",
    "--secret id=mysecret1,src=file1",
    "--password-stdin",
    "--token-file x1234567",
    "secret=projects/123/secrets/db2/versions/3",
    "token=https://example.com/oauth2/token",
    "tokens=1234",
    "max_tokens=4096",
    "prompt_tokens: 1234",
    "total_tokens=128k",
    "next_token=a1b2c3d4e5f6",
    "nextToken = a1b2c3d4e5f6",
    "token: Token12 = None",
    "token_count = 12345678",
    "password: Optional[str] = None",
    "secret: v1.2.3",
    "token = secrets.token_hex(16)",
    "const token = req2.headers.authorization",
    "self.password = password1",
    "api_key: ${{ secrets.API_KEY2 }}",
    "password=<your-password1>",
    "passwd=/etc/passwd",
    "token: 2024-01-02T10:00:00Z",
    "def f(token=None, password='')",
    "assert token != other1",
    "secret_name=db-creds",
    "tests/test_token.py::test_token_1 PASSED",
    "password must have 8 characters and 1 digit",
    "Enter password: ",
    "token 'abc123def456' is unexpected",
    "Unexpected token < in JSON at position 0",
    "SyntaxError: Unexpected token }",
    'token: "string"',
    "csrf_token = generate_token(32)",
    "key=value",
    "secret = secret_v2",
    "token=auth_token1",
    "password={password1}",
    "authKey := loadKey(v2)",
    "git config credential.helper store",
    "PasswordAuthentication no",
    "# password = changeme",
    'token := os.Getenv("X1")',
    "secret=$(cat f1)",
    "token=`cat f1`",
    "password=***",
    "access_key = var.access_key",
    "access_key = module.iam2.access_key",
    "apiKey: process.env.API_KEY1",
    "--token=$TOKEN1",
    "-e POSTGRES_PASSWORD=postgres",
    "secretKeyRef:",
    "secretName: my-secret-2",
    "secret: vault:secret/data/db2#password",
    "db_password=vault:secret/data/db2",
    "connect(password=hashed)",
    "connect(user=user, password=plain, host=host)",
    "password = hashed",
    "password=hashedValue",
    "password=old_one",
    "password: string;",
    "password: String,",
    "password: string",
    "password: z.string().min(8)",
    "password: SecretStr",
    "login(user: str, password: string)",
    '"password": "string"',
    "password: required",
    "Invalid password: rejected",
    "WHERE password=:hashed",
    "password=changeme",
    "password=your-password",
    "password=xxxxxxxx",
    "password=********",
    "<password>string</password>",
    "<password>...</password>",
    "password=example-value",
    "password: see the manual of your service",
    "password=opts->password;",
    '<input type="password" name="password">',
    "docker run -u 1000:1000 x",
    "docker exec -u www-data:www-data x",
    "sort -u a:b",
    "rsync -u host:dir/name2 .",
    "date -u +%H:%M:%S",
    "git push -u origin HEAD:refs/heads/x1",
    "machine learning with a login form and a password",
    "the machine asks for login and password",
]
# Where programs take a password that no name announces: before, the password, after.
GIVEN = [
    ("curl -u bob:", "swordfish", " https://x"),
    ("curl -s -u bob:", "hunter2", " https://x"),
    ("curl -X POST --user 'bob:", "swordfish", "'"),
    ("curl --user=bob:", "swordfish", " x"),
    ("curl -ubob:", "swordfish", " x"),
    ("curl https://x/y --user bob:", "hunter2x", ""),
    ("curl --proxy-user bob:", "hunter2x", ""),
    ("machine example.com login bob password ", "swordfish", "\n"),
    ("machine example.com\n  login bob\n  password ", "s3cr!t", "\n"),
    ("default login bob password ", "swordfish", "\n"),
    ("sshpass -p ", "swordfish", " ssh x"),
    ("sshpass -p'", "swordfish", "' ssh x"),
    ("mysql -u root -p", "swordfish", " db"),
    ("mysqldump -uroot -p", "swordfish", " db"),
]


def in_pieces_as_whole(text: str) -> None:
    for step in (1, 5):
        screen = REDACT.screen()
        pieces = [screen.feed(text.encode()[at : at + step]) for at in range(0, len(text), step)]
        assert b"".join([*pieces, screen.end()]).decode() == REDACT.text(text)


def test_a_value_is_hidden_however_it_is_assigned() -> None:
    for before, secret, after in ASSIGNED:
        text = f"{before}{secret}{after}"

        assert REDACT.text(text) == f"{before}[REDACTED:assignment]{after}"
        in_pieces_as_whole(text)


def test_a_password_that_a_program_is_given_is_hidden() -> None:
    for before, secret, after in GIVEN:
        text = f"{before}{secret}{after}"

        assert REDACT.text(text) == f"{before}[REDACTED:password]{after}"
        in_pieces_as_whole(text)


def test_a_password_in_an_address_is_hidden_also_if_it_is_a_word() -> None:
    for address in ["https://bob:{}@example.com/x", "https://:{}@example.com", "ftp://bob:{}@10.0.0.1/"]:
        assert REDACT.text(address.format("swordfish")) == address.format("[REDACTED:url]")


def test_what_only_speaks_of_a_secret_stays() -> None:
    for text in NOT_ASSIGNED:
        assert [REDACT.text(text), REDACT.text(f"{text}\n")] == [text, f"{text}\n"]


def test_a_token_is_hidden_among_colours() -> None:
    token = some(35)
    grep = f"x \x1b[01;31m\x1b[Kghp_a\x1b[m\x1b[K{token}\n"
    jq = '{\x1b[34;1m"password"\x1b[0m\x1b[1;39m:\x1b[0m \x1b[0;32m"hunter2222"\x1b[0m}'

    assert REDACT.text(grep) == "x \x1b[01;31m\x1b[K[REDACTED:github]\n"
    assert REDACT.text(jq) == jq.replace("hunter2222", "[REDACTED:assignment]")


def test_every_rule_has_a_token_and_a_near_miss() -> None:
    examples = {row[0] for row in (*TOKENS, *LABELLED)} | {"password" for _ in GIVEN}

    assert {rule.name for rule in TOKEN_SHAPES} == examples


def test_an_encrypted_key_of_the_old_form_is_hidden() -> None:
    head = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"
    key = f"{head}DEK-Info: AES-128-CBC,{some(32, HEX).upper()}\n\n{BODY}\n-----END RSA PRIVATE KEY-----\n"

    assert REDACT.text(key) == f"{head}[REDACTED:pem]\n"


def test_a_stray_beginning_of_a_key_swallows_no_more_than_16_kib() -> None:
    text = "-----BEGIN PRIVATE KEY-----\n" + "A" * 200_000

    shown = REDACT.text(text)

    assert shown.startswith("[REDACTED:pem]A")
    assert len(shown) > 200_000 - 16 * 1024 - 256


def test_sums_and_commit_ids_stay() -> None:
    text = "\n".join(
        [
            f"commit {some(40, HEX)}",
            f"sha256:{some(64, HEX)}",
            '    "integrity": "sha512-' + some(86) + '=="',
            f"aiohttp==3.9 --hash=sha256:{some(64, HEX)}",
            "uuid 6ba7b810-9dad-11d1-80b4-00c04fd430c8 and key=value and token: str",
            "def password(self, token: Token1, key: bytes = b'') -> None: ...",
        ]
    )

    assert REDACT.text(text) == text


def test_families_may_be_left_out() -> None:
    token = "ghp_" + some(36)

    assert Redactor(Redaction(families=False)).text(token) == token
