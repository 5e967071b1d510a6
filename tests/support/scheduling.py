"""Which tests stay on one worker where several run at once; every other test goes to the next worker that is free."""

from xdist.scheduler import LoadScopeScheduling

TOGETHER = (
    # They count what the whole machine has, and must not run beside each other.
    "tests/runtimes/bubblewrap/test_in_containers.py",
    # What the tests of a file share is slow to start.
    "tests/cli/test_containers.py",
    "tests/cli/test_join.py",
    "tests/cli/test_serve.py",
    "tests/faults/test_nodes.py",
    "tests/integrations/test_manual.py",
    "tests/integrations/test_openai_agents.py",
    "tests/store/test_blobs.py",
    "tests/test_readme.py",
    "tests/wire/test_expiry.py",
    "tests/wire/test_files_bad_input.py",
    "tests/wire/test_input_files.py",
    "tests/wire/test_keys.py",
    "tests/wire/test_limits_of_a_box.py",
    "tests/wire/test_metrics.py",
    "tests/wire/test_openapi",
    "tests/wire/test_postgres.py",
    "tests/wire/test_shell_rules.py",
    "tests/wire/test_sleeping.py",
    "tests/wire/test_storage.py",
    # Long tables of short cases: to hand out each by itself would cost more than the case.
    "tests/config/",
    "tests/containers/test_front_matter.py",
    "tests/containers/test_requested_spec.py",
    "tests/egress/test_addresses.py",
    "tests/guard/test_",
    "tests/responses/",
    "tests/siege/",
    "tests/tools/bash/test_modes.py",
    "tests/tools/bash/test_words.py",
    "tests/tools/shell_cmd/",
    "tests/wire/test_bad_requests.py",
    "tests/wire/test_containers_bad_input.py",
)


class FilesTogether(LoadScopeScheduling):
    """Those of a file in TOGETHER are one piece of work. xdist's own marks for that (`xdist_group`) have no effect under pytest 9.2, which
    gives a test's id from elsewhere than xdist 3.8 changes it."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if file.startswith(TOGETHER) else nodeid
