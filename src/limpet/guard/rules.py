"""Shapes of tokens that everybody knows: a public beginning and what follows it. A table; `heads` finds them.

Each rule is a literal head and then runs of bytes, so that nothing backtracks and it is always known whether more bytes could
still complete one. Source: the public formats collected for seed 02 ("API keys, tokens, JWTs"). There is no entropy rule: sums,
commit ids and lock files would fall to it.
"""

from dataclasses import dataclass

WORD = "A-Za-z0-9"
URL_SAFE = "A-Za-z0-9_-"
BASE64 = "A-Za-z0-9+/"
HEX = "0-9a-f"
# What a labelled value is made of: no blanks, quotes, brackets or characters that begin an expansion or a call.
VALUE = r"A-Za-z0-9_.+/=~!@#^&*:?|-"
# A token begins here: not inside a word, unless that is the end of an escape sequence (\n, %3D, a colour).
BEGINS = rb"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=[0-9\[]m)|(?<=\[K))"

# Not a cursor: programs that list things need their nextToken.
_CURSORS = "next change client page paging continuation sync".split()
NO_CURSOR = "(?i:{})".format("".join(f"(?<!{word}[_-])(?<!{word})" for word in _CURSORS)).encode()


@dataclass(frozen=True, slots=True)
class Run:
    """`low` to `high` bytes of one class (what stands in an expression's brackets), taken greedily and never given back."""

    of: str
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One shape. `before` is what must hold in front of the head (a look-behind), `after` the class of bytes that may not follow.

    `hides` is the run that is the secret; None hides head and all. `mixed` asks for a digit and a letter in the hidden part.
    """

    name: str
    heads: tuple[str, ...]
    runs: tuple[Run, ...]
    before: bytes = b""
    after: str = ""
    hides: int | None = None
    mixed: bool = False


def _token(name: str, heads: str, of: str, low: int, high: int = 255, *, exact: bool = False) -> Rule:
    """A head and one run; `exact` refuses a longer one."""
    return Rule(name=name, heads=tuple(heads.split()), runs=(Run(of, low, high),), after=of if exact else "")


def _cased(*words: str) -> tuple[str, ...]:
    """The ways in which names are written: password, PASSWORD, Password."""
    return tuple(dict.fromkeys(form for word in words for form in (word, word.upper(), word.title())))


TOKENS = (
    _token("github", "ghp_ gho_ ghu_ ghs_ ghr_", WORD, 36),
    _token("github", "github_pat_", "A-Za-z0-9_", 40),
    _token("gitlab", "glpat- gldt- glrt- glptt- glsoat- glcbt-", URL_SAFE, 20),
    Rule(name="aws", heads=("AKIA", "ASIA"), runs=(Run("A-Z0-9", 16, 16),), before=BEGINS, after=WORD),
    _token("google", "AIza", URL_SAFE, 35, 35, exact=True),
    _token("google", "ya29.", "A-Za-z0-9_.-", 20, 2048),
    _token("google", "GOCSPX-", URL_SAFE, 28, 64),
    _token("slack", "xoxa- xoxb- xoxe- xoxp- xoxr- xoxs- xapp-", "A-Za-z0-9-", 20),
    _token("stripe", "sk_live_ rk_live_", WORD, 16),
    _token("stripe", "whsec_", "A-Za-z0-9+/=", 24),
    _token("anthropic", "sk-ant-", URL_SAFE, 20),
    _token("openai", "sk-proj- sk-svcacct- sk-admin- sk-or-v1-", URL_SAFE, 20),
    Rule(name="openai", heads=("sk-",), runs=(Run(WORD, 20, 128),), before=BEGINS, mixed=True),
    _token("huggingface", "hf_", WORD, 30),
    _token("npm", "npm_", WORD, 36),
    _token("pypi", "pypi-AgE", URL_SAFE, 50, 1024),
    _token("digitalocean", "dop_v1_ doo_v1_ dor_v1_", HEX, 64, 64),
    _token("twilio", "SK", HEX, 32, 32),
    Rule(name="sendgrid", heads=("SG.",), runs=(Run(URL_SAFE, 16, 64), Run(".", 1, 1), Run(URL_SAFE, 16, 128))),
    Rule(name="telegram", heads=(":AA",), runs=(Run(URL_SAFE, 33, 33),), before=rb"(?<=[0-9]{8})", after=URL_SAFE),
    Rule(
        name="slack",
        heads=("hooks.slack.com/",),
        runs=(Run("a-z", 4, 16), Run("/", 1, 1), Run("A-Za-z0-9/_-", 30, 160)),
        hides=2,
    ),
    Rule(
        name="jwt",
        heads=("eyJ",),
        runs=(Run(URL_SAFE, 6, 1024), Run(".", 1, 1), Run(URL_SAFE, 6, 4096), Run(".", 1, 1), Run(URL_SAFE, 6, 1024)),
    ),
)

_KEY_BODY = (Run(r"\s\\nr", 0, 64), Run(BASE64, 40, 128), Run(r"A-Za-z0-9+/=\s\\", 0, 16_000))
_KEY_END = (Run("-", 0, 5), Run("A-Z ", 0, 40), Run("-", 0, 5))
KEYS = (
    Rule(
        name="pem",
        heads=(
            *(f"-----BEGIN {kind}PRIVATE KEY-----" for kind in ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ")),
            "-----BEGIN PGP PRIVATE KEY BLOCK-----",
        ),
        runs=(*_KEY_BODY, *_KEY_END),
    ),
    Rule(
        name="pem",
        heads=("DEK-Info: ",),
        runs=(Run("A-Z0-9-", 3, 32), Run(",", 1, 1), Run("0-9A-Fa-f", 16, 64), *_KEY_BODY, *_KEY_END),
    ),
)

_QUOTE = "\"'"
_SAID = (Run(r"\\", 0, 1), Run(_QUOTE, 0, 1), Run(" \t", 0, 4), Run(":=", 1, 2), Run(" \t", 0, 4), Run(r"\\", 0, 1))
LABELLED = (
    Rule(
        name="bearer",
        heads=tuple(f"{word}{blank}" for word in _cased("bearer") for blank in (" ", "%20")),
        runs=(Run("A-Za-z0-9_.=+/~-", 12, 4096),),
        hides=0,
        mixed=True,
    ),
    Rule(
        name="authorization",
        heads=_cased("authorization"),
        runs=(*_SAID, Run(_QUOTE, 0, 1), Run("A-Za-z", 5, 6), Run(" ", 1, 2), Run("A-Za-z0-9_.=+/~-", 8, 4096)),
        hides=9,
        mixed=True,
    ),
    Rule(
        name="url",
        heads=("://",),
        runs=(
            Run(r"A-Za-z0-9_.~%+-", 0, 128),
            Run(":", 1, 1),
            Run(r"A-Za-z0-9_.~%+!&=,;*^|?#\\-", 3, 512),
            Run("@", 1, 1),
            Run(r"A-Za-z0-9\[", 1, 1),
        ),
        hides=2,
    ),
    Rule(
        name="azure",
        heads=("AccountKey=", "SharedAccessKey="),
        runs=(Run(BASE64, 40, 128), Run("=", 0, 2)),
    ),
    Rule(
        name="aws",
        heads=(*_cased("aws_secret_access_key", "secret_key", "secretkey"), "SecretAccessKey", "secretAccessKey"),
        runs=(*_SAID, Run(_QUOTE, 0, 1), Run(BASE64, 40, 40)),
        after="A-Za-z0-9+/=",
        hides=7,
        mixed=True,
    ),
)

_NAMES = (
    *_cased("password", "passwd", "passphrase", "secret", "token", "api_key", "apikey", "api-key"),
    *_cased("access_key", "private_key", "secret_key", "client_secret"),
    *("apiKey", "ApiKey", "accessKey", "privateKey", "secretKey", "clientSecret", "accessToken", "authToken"),
)
ASSIGNED = (
    # "password": "…"   password='…'   token = "…"
    Rule(
        name="assignment",
        heads=_NAMES,
        runs=(*_SAID, Run(_QUOTE, 1, 1), Run(VALUE, 8, 512), Run(r"\\", 0, 1), Run(_QUOTE, 1, 1)),
        before=NO_CURSOR,
        hides=7,
        mixed=True,
    ),
    # password: …   at the end of a line, as in YAML
    Rule(
        name="assignment",
        heads=_NAMES,
        runs=(Run(":", 1, 1), Run(" ", 1, 8), Run(VALUE, 8, 512)),
        before=NO_CURSOR,
        after=r"\x00-\x09\x0b\x0c\x0e-\xff",
        hides=2,
        mixed=True,
    ),
    # DB_PASSWORD=…   as in an environment
    Rule(
        name="assignment",
        heads=tuple(name + "=" for name in _NAMES if name.isupper() and "-" not in name),
        runs=(Run(VALUE, 8, 512),),
        after=r"({\[<$`",
        hides=0,
        mixed=True,
    ),
    # ?token=…   in an address
    Rule(
        name="assignment",
        heads=tuple(
            f"{mark}{name}="
            for mark in "?&"
            for name in ("token", "access_token", "api_key", "apikey", "key", "secret")
        ),
        runs=(Run("A-Za-z0-9_.~%+-", 12, 512),),
        hides=0,
        mixed=True,
    ),
)

RULES = (*TOKENS, *KEYS, *LABELLED, *ASSIGNED)
