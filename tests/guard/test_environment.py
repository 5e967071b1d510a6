"""Variables: what comes from the host, what a call may set, whose values are secrets."""

from limpet.core.secret import Secret
from limpet.guard.policy.environment import NON_INTERACTIVE, is_dangerous, judge_environment, looks_secret, secrets_in
from limpet.guard.policy.verdict import Allowed, Denied

# One line for each program that trusts them.
REFUSED = """
LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH GCONV_PATH
BASH_ENV ENV IFS PATH CDPATH PROMPT_COMMAND SHELLOPTS BASHOPTS PS4 BASH_FUNC_ls%% HOME TMPDIR
PYTHONPATH PYTHONSTARTUP PYTHONHOME NODE_OPTIONS NODE_PATH PERL5OPT PERL5LIB RUBYOPT RUBYLIB JAVA_TOOL_OPTIONS
GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_PAGER GIT_CONFIG_COUNT GIT_CONFIG_GLOBAL GIT_DIR npm_config_registry
PAGER EDITOR VISUAL LESSOPEN MANPAGER HTTP_PROXY HTTPS_PROXY https_proxy all_proxy SSL_CERT_FILE SSL_CERT_DIR
""".split()


def test_a_call_may_not_set_what_programs_run_load_or_trust() -> None:
    for name in REFUSED:
        verdict = judge_environment({"OK": "1", name: "x"}, allowed=frozenset())

        assert isinstance(verdict, Denied), name
        assert (verdict.rule, name in verdict.reason) == ("environment", True), name
        assert judge_environment({name: "x"}, allowed=frozenset({name})) == Allowed(), name


def test_a_refusal_names_every_name_and_no_value() -> None:
    verdict = judge_environment({"PATH": "/evil", "FINE": "x", "LD_PRELOAD": "/evil.so"}, allowed=frozenset())

    assert verdict == Denied(
        rule="environment",
        reason="A call may not set LD_PRELOAD, PATH: programs run, load or trust what they say.",
        remedy="Leave them out, or give the program an option of its own; the workspace's operator can allow them in the policy's"
        " `environment`.",
    )


ORDINARY = ["DEBUG", "NODE_ENV", "GIT_AUTHOR_NAME", "PYTHONUNBUFFERED", "LC_ALL", "TZ", "MY_PATH", "CC"]


def test_ordinary_names_may_be_set() -> None:
    for name in ORDINARY:
        assert judge_environment({name: "x"}, allowed=frozenset()) == Allowed(), name


def test_the_defaults_keep_programs_from_asking_paging_and_colouring() -> None:
    assert NON_INTERACTIVE["PAGER"] == "cat"
    assert NON_INTERACTIVE["GIT_TERMINAL_PROMPT"] == "0"
    assert NON_INTERACTIVE["NO_COLOR"] == "1"
    assert not is_dangerous("CI")


NAMES_OF_SECRETS = """
API_KEY OPENAI_API_KEY DB_PASSWORD MYSQL_PWD GITHUB_TOKEN AWS_SECRET_ACCESS_KEY npm_config__authToken SESSION_JWT apikey
BASIC_AUTH SENTRY_DSN PRIVATE_KEY GOOGLE_CREDENTIALS TOKEN
""".split()


def test_names_of_secrets() -> None:
    for name in NAMES_OF_SECRETS:
        assert looks_secret(name), name


def test_names_that_only_look_a_little_like_it() -> None:
    for name in "PATH PWD OLDPWD KEYBOARD AUTHOR GIT_AUTHOR_NAME TOKENIZERS_PARALLELISM MONKEY COMPASS LANG".split():
        assert not looks_secret(name), name


def test_values_that_stand_everywhere_are_not_taken_for_secrets() -> None:
    env = {
        "GITHUB_TOKEN": "t0ken-0123456",
        "DB_PASSWORD": "postgres",
        "SSH_KEY": "/root/.ssh/id_ed25519",
        "AUTH_URL": "https://login.example.com/",
        "REDIS_AUTH": "redis://u:p4ssw0rd@db",
        "KEY_COUNT": "123456789",
        "API_KEY": "short",
        "LANG": "C.UTF-8-and-more",
    }

    assert secrets_in(env) == {"GITHUB_TOKEN": Secret("t0ken-0123456"), "REDIS_AUTH": Secret("redis://u:p4ssw0rd@db")}
