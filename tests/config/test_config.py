from pathlib import Path
from typing import Any

import pytest

from limpet.config import Config, Overrides, load_config
from limpet.config.sections import Sections
from limpet.core.errors import ConfigInvalid
from limpet.core.secret import Secret


def load(directory: Path, text: str | None = None, **environ: str) -> Config:
    if text is not None:
        (directory / "limpet.toml").write_text(text)
    environ.setdefault("LIMPET_HOME", str(directory / "home"))
    return load_config(environ=environ, working_directory=directory)


def refusal(directory: Path, text: str | None = None, **environ: str) -> ConfigInvalid:
    with pytest.raises(ConfigInvalid) as caught:
        load(directory, text, **environ)
    return caught.value


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert (config.source, config.server.host, config.server.port) == ("the defaults", "127.0.0.1", 8420)
    assert config.features.shell.type == "bubblewrap"
    assert (config.home, config.database.url) == (tmp_path / "home", None)
    assert [(each.name, each.type, each.models) for each in config.providers] == [
        ("limpet", "script", ("limpet/script",))
    ]


def test_the_file_here_goes_before_the_one_in_the_home_directory(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/limpet.toml").write_text("[server]\nport = 1\n")
    assert load(tmp_path).server.port == 1
    assert load(tmp_path, "[server]\nport = 2\n").server.port == 2


def test_it_is_known_who_chose_the_runtime(tmp_path: Path) -> None:
    assert load(tmp_path).runtime_source is None
    assert load(tmp_path, LIMPET_FEATURES__SHELL__TYPE="memory").runtime_source == "LIMPET_FEATURES__SHELL__TYPE"
    assert load(tmp_path, "[features.shell]\ntype = 'memory'\n").runtime_source == str(tmp_path / "limpet.toml")


def test_a_named_file_goes_before_both(tmp_path: Path) -> None:
    (tmp_path / "limpet.toml").write_text("[server]\nport = 2\n")
    (tmp_path / "other.toml").write_text("[server]\nport = 3\n")
    config = load_config(tmp_path / "other.toml", environ={}, working_directory=tmp_path)
    assert (config.source, config.server.port) == (str(tmp_path / "other.toml"), 3)


def test_a_named_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"nothing\.toml: --config: there is no such file"):
        load_config(tmp_path / "nothing.toml", environ={}, working_directory=tmp_path)


def test_text_that_is_not_toml_is_refused_with_its_place(tmp_path: Path) -> None:
    error = refusal(tmp_path, "[server]\nport 8420\n")
    assert error.where == str(tmp_path / "limpet.toml")
    assert "at line 2" in error.problem


def test_the_environment_goes_before_the_file(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "[server]\nport = 2\n[features.shell]\nmemory_mb = 64\n",
        LIMPET_SERVER__PORT="3",
        LIMPET_FEATURES__SHELL__TYPE="memory",
        LIMPET_FEATURES__SHELL__STREAM_OUTPUT="false",
        LIMPET_FEATURES__SERVER_TOOLS__SHELL_LIMITS__ALLOWED_EGRESS_HOSTS='["a.example.com"]',
    )
    shell = config.features.shell
    assert (config.server.port, shell.type, shell.memory_mb, shell.stream_output) == (3, "memory", 64, False)
    assert config.features.server_tools.shell_limits.allowed_egress_hosts == ("a.example.com",)


def test_an_environment_variable_gives_text_as_it_stands_where_text_is_wanted(tmp_path: Path) -> None:
    config = load(tmp_path, LIMPET_PROVIDERS__LOCAL__TYPE="openai", LIMPET_PROVIDERS__LOCAL__API_KEY="12345")
    assert config.providers[0].api_key == Secret("12345")
    assert config.providers[0].name == "local"


def test_an_environment_variable_finds_the_name_that_the_file_chose(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        '[providers.My-Box]\ntype = "openai_chat"\nbase_url = "http://127.0.0.1:1/v1"\n',
        LIMPET_PROVIDERS__MY_BOX__API_KEY="k",
    )
    assert [(each.name, each.api_key) for each in config.providers[:1]] == [("My-Box", Secret("k"))]


def test_variables_that_are_not_settings_are_left_alone(tmp_path: Path) -> None:
    assert load(tmp_path, LIMPET_PYTHON="x", LIMPET_DATA="/y").source == "the defaults"


def test_a_reference_reads_the_environment(tmp_path: Path) -> None:
    text = '[providers.a]\ntype = "openai"\napi_key = "${KEY}"\nmodels = ["${M}-*", "$${M}"]\n[server]\nport = "${P}"\n'
    config = load(tmp_path, text, KEY="sk-1", M="gpt", P="99")
    provider = config.providers[0]
    assert (provider.api_key, provider.models, config.server.port) == (Secret("sk-1"), ("gpt-*", "${M}"), 99)


def test_a_reference_to_a_missing_variable_names_file_key_and_variable(tmp_path: Path) -> None:
    error = refusal(tmp_path, '[providers.a]\ntype = "openai"\napi_key = "${NOT_SET}"\n')
    assert str(error) == (
        f"{tmp_path}/limpet.toml: providers.a.api_key: the environment has no variable NOT_SET; "
        "set it, or write the value here"
    )


UNKNOWN = [
    ("[server]\nprot = 1", "server.prot", "the nearest known key is server.port"),
    ("[servr]\nport = 1", "servr", "the nearest known key is server"),
    ("[features.shel]\ntype = 'local'", "features.shel", "the nearest known key is features.shell"),
    ("[features]\ncommand_timeout_secs = 1", "features.command_timeout_secs", "shell_limits.command_timeout_secs"),
    ("[shell]\ntype = 'local'", "shell", "the nearest known key is features.shell;"),
    ("[providers.a]\ntype='script'\napikey='x'", "providers.a.apikey", "providers.a.api_key"),
    ("zzzz = 1", "zzzz", "here server, auth, database, engine, storage, providers, features may stand"),
]


@pytest.mark.parametrize("text, key, hint", UNKNOWN, ids=[key for _, key, _ in UNKNOWN])
def test_an_unknown_key_is_refused_with_the_nearest_known_one(tmp_path: Path, text: str, key: str, hint: str) -> None:
    error = refusal(tmp_path, text)
    assert (error.where, error.key) == (str(tmp_path / "limpet.toml"), key)
    assert "is not known" in error.problem
    assert hint in error.problem


def test_an_unknown_key_from_the_environment_names_the_variable(tmp_path: Path) -> None:
    error = refusal(tmp_path, "[server]\nport = 1\n", LIMPET_SERVER__PROT="2")
    assert (error.where, error.key) == ("LIMPET_SERVER__PROT", "server.prot")
    assert refusal(tmp_path, LIMPET_SERVR__PORT="2").where == "LIMPET_SERVR__PORT"


WRONG = [
    ("[server]\nport = 'x'", "server.port", 'should be a whole number from 0 to 65535, not "x"'),
    ("[server]\nport = 70000", "server.port", "should be a whole number from 0 to 65535, not 70000"),
    ("[server]\nport = true", "server.port", "should be a whole number from 0 to 65535, not true"),
    ("[server]\nhost = 1", "server.host", "should be text in quotes, not a number"),
    ("server = 1", "server", "should be a table"),
    ("[features.shell]\nunsafe_local = 1", "features.shell.unsafe_local", "should be true or false, not 1"),
    ("[features.shell]\ncpus = 0", "features.shell.cpus", "should be a number from 0.01 to 1024, not 0"),
    ("[features.shell]\ntype = 'bubblewarp'", "features.shell.type", "the nearest is bubblewrap"),
    ("[features.server_tools]\nmax_iterations = 0", "features.server_tools.max_iterations", "whole number from 1"),
    (
        "[features.server_tools.shell_limits]\nmax_item_output_bytes = 20000000",
        "features.server_tools.shell_limits.max_item_output_bytes",
        "from 1024 to 10485760",
    ),
    ("[providers.a]\ntype = 'openai'\nmodels = 'x'", "providers.a.models", "should be a list of text"),
    ("[providers.a]\ntype = 'openai'\nmodels = [1]", "providers.a.models[0]", "should be text in quotes"),
    ("[providers.a]\nmodels = ['x']", "providers.a.type", "is missing; it has no default"),
    ("[providers]\na = 1", "providers.a", "should be a table"),
]


@pytest.mark.parametrize("text, key, hint", WRONG, ids=[f"{key}-{hint[-12:]}" for _, key, hint in WRONG])
def test_a_wrong_value_is_refused_with_what_would_be_right(tmp_path: Path, text: str, key: str, hint: str) -> None:
    error = refusal(tmp_path, text)
    assert (error.where, error.key) == (str(tmp_path / "limpet.toml"), key)
    assert hint in error.problem


def test_a_wrong_value_from_the_environment_is_not_shown(tmp_path: Path) -> None:
    error = refusal(tmp_path, LIMPET_SERVER__PORT="sk-oops")
    assert (error.where, error.key) == ("LIMPET_SERVER__PORT", "server.port")
    assert "sk-oops" not in str(error)


LATER = [
    ("[features.shell]\ntype = 'microsandbox'\nimage = 'alpine'\ncpus = 1\nmemory_mb = 512", "features.shell.type"),
    ("[features.shell]\ntype = 'opensandbox'\nendpoint = 'http://x'", "features.shell.type"),
]


@pytest.mark.parametrize("text, key", LATER, ids=[text.split("'")[1] for text, _ in LATER])
def test_what_is_not_built_yet_is_refused_by_its_name(tmp_path: Path, text: str, key: str) -> None:
    error = refusal(tmp_path, text)
    assert error.key == key
    assert f'"{text.split(chr(39))[1]}" is not built yet; built: ' in error.problem


ENGINES = [
    pytest.param("[engine]\ntype = 'dbos'", {}, "{path}", id="file"),
    pytest.param("[engine]\ntype = 'dbos'\nqueue = 'responses'", {}, "{path}", id="with-a-key-of-its-own"),
    pytest.param("", {"LIMPET_ENGINE__TYPE": "dbos"}, "LIMPET_ENGINE__TYPE", id="environment"),
]


@pytest.mark.parametrize("text, environ, where", ENGINES)
def test_an_engine_that_was_left_out_is_refused_with_the_reason(
    tmp_path: Path, text: str, environ: dict[str, str], where: str
) -> None:
    error = refusal(tmp_path, text, **environ)
    assert (error.where, error.key) == (where.format(path=tmp_path / "limpet.toml"), "engine.type")
    page = "docs/decisions/dbos.md"
    reason = f"its fence does not stand in the transaction of a run's events ({page})"
    assert error.problem == f'"dbos" is left out: {reason}; built: lease'
    assert (Path(__file__).parents[2] / page).is_file()


@pytest.mark.parametrize("name", ["DBOS", "leases", ""])
def test_an_engine_of_another_name_is_refused_with_those_that_are_built(tmp_path: Path, name: str) -> None:
    error = refusal(tmp_path, f"[engine]\ntype = '{name}'")
    assert error.key == "engine.type"
    assert error.problem.startswith("should be one of lease")


def test_the_lease_engine_is_the_default_and_can_be_named(tmp_path: Path) -> None:
    assert load(tmp_path, "[engine]\ntype = 'lease'\n").source == str(tmp_path / "limpet.toml")
    assert Sections().engine.type == "lease"


def test_the_compaction_example_is_read(tmp_path: Path) -> None:
    text = """
[features.responses.compaction]
enabled = true # default false
default_strategy = "truncate"
default_threshold_tokens = 12_000
keep_recent_items = 6
default_prompt = "..."
"""
    compaction = load(tmp_path, text).features.responses.compaction
    assert (compaction.enabled, compaction.default_threshold_tokens) == (True, 12_000)
    assert compaction.default_prompt == "..."


def test_local_needs_somebody_to_say_so(tmp_path: Path) -> None:
    text = "[features.shell]\ntype = 'local'\n"
    assert "--unsafe-local" in refusal(tmp_path, text).problem
    meant = load_config(environ={}, working_directory=tmp_path, overrides=Overrides(unsafe_local=True))
    assert meant.features.shell.type == "local"
    assert load(tmp_path, f"{text}unsafe_local = true\n").features.shell.unsafe_local


KEYLESS: list[tuple[str, dict[str, Any], bool]] = [
    ("openai", {}, False),
    ("openai", {"base_url": "https://api.openai.com/v1"}, False),
    ("openai", {"base_url": "http://127.0.0.1:9/v1"}, True),
    ("openai", {"api_key": ""}, False),
    ("anthropic", {}, False),
    ("openai_chat", {}, False),
    ("openai_chat", {"base_url": "http://127.0.0.1:9/v1"}, True),
    ("script", {}, True),
]


@pytest.mark.parametrize("kind, more, fine", KEYLESS, ids=[f"{kind}-{more}" for kind, more, _ in KEYLESS])
def test_a_provider_that_needs_a_key_is_refused_without(tmp_path: Path, kind: str, more: Any, fine: bool) -> None:
    lines = [f'{key} = "{value}"\n' for key, value in {"type": kind, **more}.items()]
    text = "[providers.a]\n" + "".join(lines)
    if fine:
        assert load(tmp_path, text).providers[0].type == kind
    else:
        error = refusal(tmp_path, text)
        assert (error.key, "_API_KEY}" in error.problem) == ("providers.a.api_key", True)


def test_a_base_url_that_is_no_address_is_refused(tmp_path: Path) -> None:
    for url in ("localhost:80", "ftp://x/", "http://", "http://user@x/", "http://[::1"):
        error = refusal(tmp_path, f'[providers.a]\ntype = "openai_chat"\nbase_url = "{url}"\n')
        assert error.key == "providers.a.base_url"


def test_usual_keys_make_providers_only_where_no_section_names_any(tmp_path: Path) -> None:
    keys = {"OPENAI_API_KEY": "sk-o", "ANTHROPIC_API_KEY": "sk-a"}
    assert [each.name for each in load(tmp_path, **keys).providers] == ["openai", "anthropic", "limpet"]
    text = '[providers.mine]\ntype = "openai_chat"\nbase_url = "http://127.0.0.1:1/v1"\n'
    assert [each.name for each in load(tmp_path, text, **keys).providers] == ["mine", "limpet"]


def test_the_built_in_models_name_is_taken(tmp_path: Path) -> None:
    assert "built-in" in refusal(tmp_path, '[providers.limpet]\ntype = "openai"\napi_key = "k"\n').problem


def test_a_host_that_others_reach_is_refused_without_authentication(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "example.com", "192.168.0.1"):
        assert refusal(tmp_path, f'[server]\nhost = "{host}"\n').key == "server.host"
    for host in ("127.0.0.2", "::1", "localhost"):
        assert load(tmp_path, f'[server]\nhost = "{host}"\n').server.host == host


CONFLICTS = [
    ("[features.containers]\nmax_idle_ttl_secs = 60", "features.containers.max_idle_ttl_secs"),
    (
        "[features.server_tools.shell_limits]\nmax_mem_limit_mb = 256",
        "features.server_tools.shell_limits.max_mem_limit_mb",
    ),
    ('[storage.container_files]\nbackend = "database"\npath = "/tmp/x"', "storage.container_files.path"),
    ('[storage.container_files]\nbackend = "s3"', "storage.container_files.bucket"),
    ('[storage.container_files]\nbucket = "b"', "storage.container_files.bucket"),
    (
        '[storage.files]\nbackend = "s3"\nbucket = "b"\naccess_key_id = "hunter2"',
        "storage.files.secret_access_key",
    ),
    ('[storage.files]\nbackend = "s3"\nbucket = "b"\nendpoint = "here:9"', "storage.files.endpoint"),
    ('[storage.files]\nbucket = "b"', "storage.files.bucket"),
    ('[database]\nurl = "mysql://u:hunter2@h/d"', "database.url"),
]


@pytest.mark.parametrize("text, key", CONFLICTS, ids=[key for _, key in CONFLICTS])
def test_settings_that_contradict_each_other_are_refused(tmp_path: Path, text: str, key: str) -> None:
    error = refusal(tmp_path, text)
    assert error.key == key
    assert "hunter2" not in str(error)


def test_uploaded_files_go_where_container_files_go_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    bucket = 'backend = "s3"\nbucket = "b"\nprefix = "p"\nendpoint = "http://127.0.0.1:9"\n'
    same = load(tmp_path, f"[storage.container_files]\n{bucket}").storage.files
    assert (same.backend, same.bucket, same.prefix, same.endpoint) == ("s3", "b", "p", "http://127.0.0.1:9")
    apart = load(tmp_path, f'[storage.container_files]\n{bucket}[storage.files]\nbackend = "database"').storage.files
    assert (apart.backend, apart.bucket) == ("database", None)


def test_the_sandboxing_settings_of_the_seed_are_read(tmp_path: Path) -> None:
    text = """
[features.containers]
default_idle_ttl_secs = 1200
[features.server_tools.shell_limits]
default_mem_limit_mb = 512
max_mem_limit_mb = 4096
allowed_egress_hosts = ["api.example.com"]
command_timeout_secs = 60
[features.server_tools.shell_limits.allowed_domain_secrets.GITHUB_TOKEN]
value = "${TOKEN}"
allowed_hosts = ["api.example.com"]
"""
    limits = load(tmp_path, text, TOKEN="ghp_1").features.server_tools.shell_limits
    secret = limits.allowed_domain_secrets["GITHUB_TOKEN"]
    assert (secret.value, secret.allowed_hosts) == (Secret("ghp_1"), ("api.example.com",))
    assert (limits.default_mem_limit_mb, limits.max_mem_limit_mb, limits.command_timeout_secs) == (512, 4096, 60)


def test_no_secret_shows_in_the_settings(tmp_path: Path) -> None:
    text = '[server]\nsecret_key = "canary-1"\n[providers.a]\ntype = "openai"\napi_key = "${K}"\n'
    config = load(tmp_path, text, K="canary-2", LIMPET_SERVER__SECRET_KEY_PREVIOUS="canary-3")
    assert "canary" not in f"{config!r} {config}"
    assert config.server.secret_key_previous == Secret("canary-3")
