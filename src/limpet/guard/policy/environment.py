"""Which environment variables a command gets: what may come from the host, what a call may not set, what keeps programs from asking.

Pure: reads no environment. A name stands here because some program runs,
loads or trusts what it says.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from limpet.core.secret import PLACEHOLDER, Secret
from limpet.guard.policy.verdict import Allowed, Denied
from limpet.guard.redaction.encodings import SHORTEST

RULE = "environment"

# A call may not set these: with them a harmless command runs, loads or trusts something else.
DANGEROUS_PREFIXES = (
    *("LD_", "DYLD_", "BASH_FUNC_", "GIT_", "SSL_CERT_"),
    *("npm_config_", "NPM_CONFIG_", "CARGO_", "PERL5", "LUA_", "ERL_", "DOTNET_", "CORECLR_", "COR_"),
)
DANGEROUS = frozenset(
    # the shell
    "PATH BASH_ENV ENV IFS CDPATH SHELL SHELLOPTS BASHOPTS BASH_XTRACEFD BASH_LOADABLES_PATH PROMPT_COMMAND PS0 PS1 PS2 PS4"
    " GLOBIGNORE EXECIGNORE FCEDIT INPUTRC ZDOTDIR FPATH HISTFILE POSIXLY_CORRECT"
    # where programs look for their own files
    " HOME TMPDIR XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_HOME XDG_DATA_DIRS GNUPGHOME TERMINFO TERMINFO_DIRS TERMCAP"
    # the C library and OpenSSL
    " GCONV_PATH LOCPATH NLSPATH GLIBC_TUNABLES HOSTALIASES RES_OPTIONS LOCALDOMAIN OPENSSL_CONF OPENSSL_MODULES OPENSSL_ENGINES"
    # languages
    " PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONINSPECT PYTHONBREAKPOINT PYTHONWARNINGS PYTHONUSERBASE PYTHONEXECUTABLE"
    " PYTHONPLATLIBDIR PYTHONPYCACHEPREFIX NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS ELECTRON_RUN_AS_NODE PERLLIB RUBYOPT RUBYLIB"
    " RUBYSHELL GEM_HOME GEM_PATH BUNDLE_GEMFILE PHPRC PHP_INI_SCAN_DIR JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH"
    # builds and packages
    " MAKEFLAGS MAKEFILES GNUMAKEFLAGS MFLAGS GCC_EXEC_PREFIX COMPILER_PATH RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTFLAGS RUSTC"
    " GOFLAGS MAVEN_OPTS GRADLE_OPTS PIP_CONFIG_FILE PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_TRUSTED_HOST UV_INDEX_URL"
    " UV_DEFAULT_INDEX UV_CONFIG_FILE"
    # programs that are started by others
    " PAGER MANPAGER MANOPT SYSTEMD_PAGER AWS_PAGER GH_PAGER BAT_PAGER DELTA_PAGER PSQL_PAGER PSQL_EDITOR EDITOR VISUAL HGEDITOR"
    " HGMERGE SVN_EDITOR SVN_SSH CVS_RSH RSYNC_RSH BROWSER LESSOPEN LESSCLOSE LESSKEY LESSKEYIN LESSEDIT LESS VIMINIT EXINIT"
    " EMACSLOADPATH SUDO_ASKPASS SSH_ASKPASS SSH_ASKPASS_REQUIRE TAR_OPTIONS ZIPOPT UNZIP RIPGREP_CONFIG_PATH CURL_HOME WGETRC"
    " KUBE_EDITOR KUBECONFIG DOCKER_CONFIG"
    # whom they speak to, and whom they believe
    " HTTP_PROXY HTTPS_PROXY ALL_PROXY FTP_PROXY NO_PROXY CURL_CA_BUNDLE REQUESTS_CA_BUNDLE".split()
)
# Of the dangerous families these say nothing but who, when and how quietly.
_HARMLESS = frozenset(
    "GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE GIT_TERMINAL_PROMPT"
    " GIT_OPTIONAL_LOCKS GIT_MERGE_AUTOEDIT CARGO_TERM_COLOR CARGO_TERM_QUIET CARGO_TERM_PROGRESS_WHEN DOTNET_NOLOGO"
    " DOTNET_CLI_TELEMETRY_OPTOUT".split()
)

# Set for every command that does not set them itself: programs then neither ask nor page nor colour.
NON_INTERACTIVE: Mapping[str, str] = {
    "CI": "true",
    "CONTINUOUS_INTEGRATION": "true",
    "DEBIAN_FRONTEND": "noninteractive",
    "DEBCONF_NONINTERACTIVE_SEEN": "true",
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "AWS_PAGER": "",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "true",
    "NO_COLOR": "1",
    "FORCE_COLOR": "0",
    "CLICOLOR": "0",
    "CARGO_TERM_COLOR": "never",
    "npm_config_yes": "true",
    "npm_config_audit": "false",
    "npm_config_fund": "false",
    "npm_config_progress": "false",
    "npm_config_loglevel": "warn",
    "YARN_ENABLE_TELEMETRY": "0",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PIP_NO_INPUT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "HOMEBREW_NO_AUTO_UPDATE": "1",
    "HOMEBREW_NO_ANALYTICS": "1",
    "CARGO_TERM_PROGRESS_WHEN": "never",
    "RUSTUP_TERM_QUIET": "true",
    "PGCONNECT_TIMEOUT": "10",
}

_SECRET_PART = re.compile(
    "secret|password|passwd|passphrase|token(?!iz)|credential|api_?key|private_?key|access_?key", re.IGNORECASE
)
_SECRET_WORDS = frozenset("key keys pass pwd auth creds jwt pat cookie dsn signing encryption private".split())
# The same names come with call after call; how many of them are remembered.
_NAMES_KNOWN = 4096
_NO_SECRET = re.compile(
    PLACEHOLDER + r"[0-9a-f]{40}|/\S*|~/\S*|[A-Za-z][A-Za-z0-9+.-]*://[^@\s]*|[0-9.:-]+|[a-z]{1,12}|[A-Z]{1,12}"
)


@lru_cache(_NAMES_KNOWN)
def is_dangerous(name: str) -> bool:
    """Whether a variable of that name changes what programs run, load or trust. Proxies count in small letters too."""
    if name in _HARMLESS or name.endswith(
        "_TOKEN"
    ):  # a credential, such as CARGO_REGISTRY_TOKEN, decides nothing of that
        return False
    return name in DANGEROUS or name.startswith(DANGEROUS_PREFIXES) or name.lower().endswith("_proxy")


def judge_environment(env: Mapping[str, str], *, allowed: frozenset[str]) -> Denied | Allowed:
    """Whether a call may set these variables. `allowed`: names that the policy lets it set although they are dangerous."""
    names = sorted(name for name in env if is_dangerous(name) and name not in allowed)
    if not names:
        return Allowed()
    listed = ", ".join(names)
    are = "them" if len(names) > 1 else "it"
    return Denied(
        rule=RULE,
        reason=f"A call may not set {listed}: programs run, load or trust what {'they say' if len(names) > 1 else 'it says'}.",
        remedy=f"Leave {are} out, or give the program an option of its own; the workspace's operator can allow {are} in the policy's"
        " `environment`.",
    )


@lru_cache(_NAMES_KNOWN)
def looks_secret(name: str) -> bool:
    """Whether the value of a variable of that name is to be hidden when it is handed in: API_KEY, DB_PASSWORD, GITHUB_TOKEN …"""
    if _SECRET_PART.search(name):
        return True
    words = re.split(r"[^a-z0-9]+", name.lower())
    return len(words) > 1 and not _SECRET_WORDS.isdisjoint(words)


def secrets_in(env: Mapping[str, str]) -> dict[str, Secret]:
    """The variables of `env` whose values are to be hidden, by name: of a secret's name, long enough to be sought, and neither a
    path, an address, a number nor a single plain word, which would be hidden wherever it stands, nor a secret's placeholder."""
    return {
        name: Secret(value)
        for name, value in env.items()
        if looks_secret(name) and len(value.strip()) >= SHORTEST and not _NO_SECRET.fullmatch(value.strip())
    }
