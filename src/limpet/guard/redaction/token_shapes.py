"""Published shapes of tokens: a fixed beginning and what follows it. A table; `matcher` finds them.

Each rule is a literal head and then runs of bytes, so that nothing backtracks and it is always known whether more bytes could
still complete one. Source: the formats that the issuers of API keys and tokens publish, and RFC 7519 (JWT). There is no entropy rule: sums,
commit ids and lock files would fall to it.
"""

from dataclasses import dataclass
from typing import Any

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
class TokenShape:
    """One shape. `before` is what must hold in front of the head (a look-behind), `after` the class of bytes that may not follow.

    `hides` is the run that is the secret; None hides head and all. `mixed` asks for a digit and a letter in the hidden part; what
    `unless` matches as a whole is none. Where others fit too, they name what `is_general` would hide.
    """

    name: str
    heads: tuple[str, ...]
    runs: tuple[Run, ...]
    before: bytes = b""
    after: str = ""
    hides: int | None = None
    mixed: bool = False
    unless: bytes = b""
    is_general: bool = False


def _token(name: str, heads: str, of: str, low: int, high: int = 255, *, exact: bool = False) -> TokenShape:
    """A head and one run; `exact` refuses a longer one."""
    return TokenShape(name=name, heads=tuple(heads.split()), runs=(Run(of, low, high),), after=of if exact else "")


def _cased(*words: str) -> tuple[str, ...]:
    """The ways in which names are written: password, PASSWORD, Password."""
    return tuple(dict.fromkeys(form for word in words for form in (word, word.upper(), word.title())))


TOKENS = (
    _token("github", "ghp_ gho_ ghu_ ghs_ ghr_", WORD, 36),
    _token("github", "github_pat_", "A-Za-z0-9_", 40),
    _token("gitlab", "glpat- gldt- glrt- glptt- glsoat- glcbt-", URL_SAFE, 20),
    TokenShape(name="aws", heads=("AKIA", "ASIA"), runs=(Run("A-Z0-9", 16, 16),), before=BEGINS, after=WORD),
    _token("google", "AIza", URL_SAFE, 35, 35, exact=True),
    _token("google", "ya29.", "A-Za-z0-9_.-", 20, 2048),
    _token("google", "GOCSPX-", URL_SAFE, 28, 64),
    _token("slack", "xoxa- xoxb- xoxe- xoxp- xoxr- xoxs- xapp-", "A-Za-z0-9-", 20),
    _token("stripe", "sk_live_ rk_live_", WORD, 16),
    _token("stripe", "whsec_", "A-Za-z0-9+/=", 24),
    _token("anthropic", "sk-ant-", URL_SAFE, 20),
    _token("openai", "sk-proj- sk-svcacct- sk-admin- sk-or-v1-", URL_SAFE, 20),
    TokenShape(name="openai", heads=("sk-",), runs=(Run(WORD, 20, 128),), before=BEGINS, mixed=True),
    _token("huggingface", "hf_", WORD, 30),
    _token("npm", "npm_", WORD, 36),
    _token("pypi", "pypi-AgE", URL_SAFE, 50, 1024),
    _token("digitalocean", "dop_v1_ doo_v1_ dor_v1_", HEX, 64, 64),
    _token("twilio", "SK", HEX, 32, 32),
    TokenShape(name="sendgrid", heads=("SG.",), runs=(Run(URL_SAFE, 16, 64), Run(".", 1, 1), Run(URL_SAFE, 16, 128))),
    TokenShape(
        name="telegram", heads=(":AA",), runs=(Run(URL_SAFE, 33, 33),), before=rb"(?<=[0-9]{8})", after=URL_SAFE
    ),
    TokenShape(
        name="slack",
        heads=("hooks.slack.com/",),
        runs=(Run("a-z", 4, 16), Run("/", 1, 1), Run("A-Za-z0-9/_-", 30, 160)),
        hides=2,
    ),
    TokenShape(
        name="jwt",
        heads=("eyJ",),
        runs=(Run(URL_SAFE, 6, 1024), Run(".", 1, 1), Run(URL_SAFE, 6, 4096), Run(".", 1, 1), Run(URL_SAFE, 6, 1024)),
    ),
)

_KEY_BODY = (Run(r"\s\\nr", 0, 64), Run(BASE64, 40, 128), Run(r"A-Za-z0-9+/=\s\\", 0, 16_000))
_KEY_END = (Run("-", 0, 5), Run("A-Z ", 0, 40), Run("-", 0, 5))
KEYS = (
    TokenShape(
        name="pem",
        heads=(
            *(f"-----BEGIN {kind}PRIVATE KEY-----" for kind in ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ")),
            "-----BEGIN PGP PRIVATE KEY BLOCK-----",
        ),
        runs=(*_KEY_BODY, *_KEY_END),
    ),
    TokenShape(
        name="pem",
        heads=("DEK-Info: ",),
        runs=(Run("A-Z0-9-", 3, 32), Run(",", 1, 1), Run("0-9A-Fa-f", 16, 64), *_KEY_BODY, *_KEY_END),
    ),
)

_QUOTE = "\"'"
_SAID = (Run(r"\\", 0, 7), Run(_QUOTE, 0, 1), Run(" \t", 0, 4), Run(":=", 1, 2), Run(" \t", 0, 4), Run(r"\\", 0, 7))
LABELLED = (
    TokenShape(
        name="bearer",
        heads=tuple(f"{word}{blank}" for word in _cased("bearer") for blank in (" ", "%20")),
        runs=(Run("A-Za-z0-9_.=+/~-", 12, 4096),),
        hides=0,
        mixed=True,
    ),
    TokenShape(
        name="authorization",
        heads=_cased("authorization"),
        runs=(*_SAID, Run(_QUOTE, 0, 1), Run("A-Za-z", 5, 6), Run(" ", 1, 2), Run("A-Za-z0-9_.=+/~-", 8, 4096)),
        hides=9,
        mixed=True,
    ),
    TokenShape(
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
    TokenShape(
        name="azure",
        heads=("AccountKey=", "SharedAccessKey="),
        runs=(Run(BASE64, 40, 128), Run("=", 0, 2)),
    ),
    TokenShape(
        name="aws",
        heads=(*_cased("aws_secret_access_key", "secret_key", "secretkey"), "SecretAccessKey", "secretAccessKey"),
        runs=(*_SAID, Run(_QUOTE, 0, 1), Run(BASE64, 40, 40)),
        after="A-Za-z0-9+/=",
        hides=7,
        mixed=True,
    ),
)

_NAMES = (
    *_cased("secret", "token", "api_key", "apikey", "api-key", "auth_key", "encryption_key", "signing_key"),
    *_cased("access_key", "private_key", "secret_key", "client_secret", "access-key", "client-secret", "secret-key"),
    *("apiKey", "ApiKey", "accessKey", "privateKey", "secretKey", "clientSecret", "accessToken", "authToken"),
)
_PASSWORDS = (*_cased("password", "passwd", "passphrase"), "_pass", "_PASS", "_pwd", "_PWD", ";pwd", ";Pwd", ";PWD")
_OPTIONS = tuple(
    f"--{name}"
    for name in "password passwd passphrase token auth-token access-token api-token api-key api_key apikey secret client-secret"
    " access-key secret-key".split()
)
# What stands behind such a name in code, configuration and messages and is no secret: names of variables and classes, paths,
# addresses, references to where the secret is kept, versions, dates, a comparison.
_NO_SECRET = rb"""(?x)
    [A-Za-z_]+(?:[0-9]{1,2}[A-Za-z_]*)? (?:\.[A-Za-z_]+(?:[0-9]{1,2}[A-Za-z_]*)?)+
    | (?i:(?=[a-z_]*(?:pass|secret|token|key|auth|cred|conf|env|arg|param|value|user)))[A-Za-z_]+[0-9]{0,2}
    | (?:[A-Z][a-z]+){2,}[0-9]{0,2}
    | (?:~|\.\.?)(?:/[A-Za-z0-9_.-]+)*/? | (?:/[A-Za-z0-9_.-]+){2,}/?
    | [A-Za-z0-9_./-]+\.(?:py|js|ts|go|rs|c|h|rb|sh|json|ya?ml|toml|ini|cfg|txt|pem|key|crt|env|md)(?::.*)?
    | [a-z][a-z0-9+.-]*://.* | (?:arn|op|vault|ssm|file|env|ref|projects?|secrets?|id|type|src)[:/=].*
    | v?[0-9]+(?:\.[0-9]+)+ | [0-9]{4}-[0-9]{2}-[0-9]{2}.* | =.*
"""
# A password may be a word. These are none: names of variables (in two parts, or a parameter of SQL), types, what messages and forms
# say of passwords, and what stands in for one.
_NO_PASSWORD = (
    _NO_SECRET
    + rb"""
    | (?=.{0,64}\Z)(?: [a-z]+(?:[A-Z][a-z]*)+ | [A-Za-z]+(?:_[A-Za-z]+)+_? | _.* | [:@?%*].* | (?P<one>.)(?P=one)* | .*\.\.\.
    | (?i: (?:your|my|some|the|new|old|enter|insert|type|set|add|put)[-_.].*
      | .*(?:example|change-?me|placeholder|replace|redacted|dummy|sample).*
      | str(?:ing)? | varchar | number | boolean | integer | object | nullable | undefined | default | function | callable | optional
      | required | invalid | incorrect | wrong | missing | expired | rejected | refused | failed | failure | success(?:ful)? | accepted
      | denied | disabled | enabled | changed | updated | unchanged | removed | hidden | masked | prompt | static | private | public
      | return | please | sensitive | unknown | encrypted | hashed | plain(?:text)? | bcrypt | argon2(?:id?)? | postgres | nothing
      | protected | authentication | login | username | account | options? | reset | forgot(?:ten)? | strength | length | policy
      | characters? | contains | should | cannot | length | equals | matches | mismatch | buffer | result | random | generated? ))
"""
)
_NO_CODE = r"({\[<$`"
_SPACE = " \t"
_WITHOUT_AND = VALUE.replace("&", "")
_ENTITY = (Run("&", 1, 1), Run("#A-Za-z0-9", 2, 7), Run(";", 1, 1))


def _assigned(heads: tuple[str, ...], *runs: Run, value: str = VALUE, least: int, **more: Any) -> TokenShape:
    """A name, what stands between, and the value."""
    then: tuple[Run, ...] = more.pop("then", ())
    return TokenShape(
        name="assignment", heads=heads, runs=(*runs, Run(value, least, 512), *then), hides=len(runs), mixed=more.pop("mixed", True),
        before=NO_CURSOR, is_general=True, **more,
    )  # fmt: skip


def _assignments(names: tuple[str, ...], least: int) -> tuple[TokenShape, ...]:
    """Every way in which configuration, data and code give one of these names a value of at least so many characters."""
    elements = tuple(f"{name}>" for name in names)
    return (
        # "password": "…"   password='…'   token = "…"
        _assigned(names, *_SAID, Run(_QUOTE, 1, 1), least=least, then=(Run(r"\\", 0, 7), Run(_QUOTE, 1, 1))),
        # password: …   as in YAML, before a comment or the line's end
        _assigned(names, Run(":", 1, 1), Run(" ", 1, 8), least=least, after=r"^\s", unless=_NO_SECRET),
        # DB_PASSWORD=…   api_key=…   as in an environment; of an address only up to its next &name=
        _assigned(
            names, Run("=", 1, 1), least=least, after=_NO_CODE, unless=_NO_SECRET + rb" | .*&[A-Za-z_][A-Za-z0-9_]*=.*"
        ),
        _assigned(names, Run("=", 1, 1), value=_WITHOUT_AND, least=least, after=_NO_CODE, unless=_NO_SECRET),
        # token = …   as in an ini file
        _assigned(
            names,
            Run(_SPACE, 1, 4),
            Run(":?+", 0, 1),
            Run("=", 1, 1),
            Run(_SPACE, 0, 4),
            least=least,
            after=r"^\s",
            unless=_NO_SECRET,
        ),
        _assigned(
            names, Run(":?+", 0, 1), Run("=", 1, 1), Run(_SPACE, 1, 4), least=least, after=r"^\s", unless=_NO_SECRET
        ),
        # <password>…</password>
        _assigned(elements, value=_WITHOUT_AND, least=least, then=(Run("<", 1, 1),), unless=_NO_SECRET),
        # &quot;password&quot;: &quot;…&quot;   password=&#34;…&#34;
        _assigned(
            names,
            *_ENTITY,
            Run(_SPACE, 0, 4),
            Run(":=", 1, 2),
            Run(_SPACE, 0, 4),
            *_ENTITY,
            value=_WITHOUT_AND,
            least=least,
        ),
        _assigned(
            names, Run(_SPACE, 0, 4), Run(":=", 1, 2), Run(_SPACE, 0, 4), *_ENTITY, value=_WITHOUT_AND, least=least
        ),
    )


def _words_assigned(names: tuple[str, ...], least: int) -> tuple[TokenShape, ...]:
    """As `_assignments`, for values that need no digit: only where configuration, data or a command gives one, not where code may."""
    elements = tuple(f"{name}>" for name in names)
    plain: dict[str, Any] = {"least": least, "mixed": False, "unless": _NO_PASSWORD}
    return (
        _assigned(names, *_SAID, Run(_QUOTE, 1, 1), then=(Run(r"\\", 0, 7), Run(_QUOTE, 1, 1)), **plain),
        _assigned(names, Run(":", 1, 1), Run(" ", 1, 8), after=r"^\r\n", **plain),
        _assigned(names, Run("=", 1, 1), value=_WITHOUT_AND, after=_NO_CODE + r",)>\]", **plain),
        _assigned(elements, value=_WITHOUT_AND, then=(Run("<", 1, 1), Run("/", 1, 1)), **plain),
        _assigned(
            names, *_ENTITY, Run(_SPACE, 0, 4), Run(":=", 1, 2), Run(_SPACE, 0, 4), *_ENTITY, value=_WITHOUT_AND,
            then=(Run("&", 1, 1),), **plain,
        ),
    )  # fmt: skip


def _literal(text: str) -> tuple[Run, ...]:
    return tuple(Run(character, 1, 1) for character in text)


_BLANKS, _USER = Run(" ", 1, 4), Run("A-Za-z0-9_.@+-", 1, 64)
_SHOWN_WORD = r"A-Za-z0-9_.~%+!@#^*=,:?&|-"
_CURL = tuple(
    f"curl {flags}{option}"
    for flags in (
        "",
        *(
            f"{flag} "
            for flag in "-s -S -sS -k -i -v -f -L -sL -fsSL -fsS -sk -ks -O -I -X_GET -X_POST -XGET -XPOST".split()
        ),
    )
    for option in ("-u", "--user")
)
# Programs that take a password as an argument or from a file of their own.
GIVEN = (
    # curl -u user:password; of other programs only what is no name of a group
    TokenShape(
        name="password",
        heads=tuple(head.replace("_", " ") for head in _CURL),
        runs=(Run(" =", 0, 2), Run(_QUOTE, 0, 1), _USER, Run(":", 1, 1), Run(_SHOWN_WORD, 3, 512)),
        hides=4,
        unless=rb"[0-9]{1,5}",
    ),
    TokenShape(
        name="password",
        heads=(" -u", " --user", " --proxy-user", " -U"),
        runs=(Run(" =", 0, 2), Run(_QUOTE, 0, 1), _USER, Run(":", 1, 1), Run(_SHOWN_WORD, 6, 512)),
        hides=4,
        mixed=True,
        after="/",
        unless=_NO_SECRET,
        is_general=True,
    ),
    # machine host login user password …   as in .netrc, on one line or several
    TokenShape(
        name="password",
        heads=("machine ",),
        runs=(
            Run(r"\S", 1, 255), Run(r"\s", 1, 16), *_literal("login"), Run(r"\s", 1, 16), Run(r"\S", 1, 128), Run(r"\s", 1, 16),
            *_literal("password"), Run(r"\s", 1, 16), Run(r"\S", 1, 512),
        ),
        hides=5 + 1 + 5 + 8,
    ),
    TokenShape(
        name="password",
        heads=("default login ",),
        runs=(Run(r"\S", 1, 128), Run(r"\s", 1, 16), *_literal("password"), Run(r"\s", 1, 16), Run(r"\S", 1, 512)),
        hides=2 + 8 + 1,
    ),
    TokenShape(name="password", heads=("sshpass -p",), runs=(Run(" ", 0, 2), Run(_QUOTE, 0, 1), Run(_SHOWN_WORD, 3, 512)), hides=2),
    # mysql -u user -p…
    TokenShape(
        name="password",
        heads=tuple(f"{program} -u" for program in ("mysql", "mysqldump", "mysqladmin", "mariadb", "mariadb-dump")),
        runs=(Run(" ", 0, 2), _USER, _BLANKS, *_literal("-p"), Run(_QUOTE, 0, 1), Run(_SHOWN_WORD, 3, 512)),
        hides=6,
    ),
)  # fmt: skip

_BACKSLASHES = Run(r"\\", 0, 7)
ASSIGNED = (
    *_words_assigned(_PASSWORDS, 6),
    *_assignments(_PASSWORDS, 6),
    *_assignments(_NAMES, 8),
    # --password …   and   "--password", "…"
    _assigned(_OPTIONS, Run(" ", 1, 4), _BACKSLASHES, Run(_QUOTE, 0, 1), least=6, after=_NO_CODE, unless=_NO_SECRET),
    _assigned(
        _OPTIONS,
        _BACKSLASHES,
        Run(_QUOTE, 1, 1),
        Run(_SPACE, 0, 4),
        Run(",", 1, 1),
        Run(r"\s", 0, 16),
        _BACKSLASHES,
        Run(_QUOTE, 1, 1),
        least=6,
        unless=_NO_SECRET,
    ),
    # ?token=…   in an address
    TokenShape(
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

TOKEN_SHAPES = (*TOKENS, *KEYS, *LABELLED, *GIVEN, *ASSIGNED)
