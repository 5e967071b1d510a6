"""The faults of the server that the seed describes, where its documents and its code differ (chapter 1): each is a test that we pass."""

from tests.wire.manifest.promise import Promise

HADRIAN_TABLE = (
    Promise(
        id="hadrian-chain-of-ten-stays-in-one-container",
        owed_by="A1",
        faults=("1.0", "24.0", "27.11"),
        says=(
            "Ten chained responses stay in one container, also while its box is live and after a restart of the "
            "gateway."
        ),
    ),
    Promise(
        id="hadrian-chain-passes-through-a-turn-without-a-call",
        owed_by="A1",
        faults=("1.0", "27.11", "27.15"),
        says="A chain whose parent never called the shell still reaches the container of the grandparent.",
    ),
    Promise(
        id="hadrian-call-is-done-before-its-output",
        owed_by="A1",
        faults=("1.1", "27.3"),
        decided="event order",
        says="The `shell_call` is done before its `shell_call_output`, in the stream as in the stored output.",
    ),
    Promise(
        id="hadrian-item-keeps-more-than-the-model-sees",
        owed_by="A1",
        faults=("1.2",),
        decided="stdout, stderr on the item",
        says="The item holds the streams whole where the model's copy was trimmed.",
    ),
    Promise(
        id="hadrian-passthrough-error-has-the-documented-code",
        owed_by="D",
        faults=("1.3",),
        decided="passthrough behind another provider",
        says="The refusal of passthrough behind another provider carries the documented code and names the provider.",
    ),
    Promise(
        id="hadrian-empty-egress-list-is-closed-on-every-runtime",
        owed_by="E",
        faults=("1.4",),
        decided="egress",
        says="An empty operator list means no network on every runtime, as one case of the shared suite.",
    ),
    Promise(
        id="hadrian-disabled-means-no-network-on-every-runtime",
        owed_by="E",
        faults=("1.5", "24.14", "27.26"),
        decided="egress",
        says='`network_policy.type = "disabled"` means no network on every runtime; one that cannot hold it refuses.',
    ),
    Promise(
        id="hadrian-commands-start-in-mnt-data",
        owed_by="A1",
        faults=("1.6",),
        says="A command without a directory of its own starts in `/mnt/data` whatever the image's default is.",
    ),
    Promise(
        id="hadrian-stored-limits-hold-at-a-later-boot",
        owed_by="C",
        faults=("1.7", "24.7", "27.27"),
        says="Memory limit and network policy that were stored with a container hold at every later boot of its box.",
    ),
    Promise(
        id="hadrian-background-run-survives-a-restart",
        owed_by="D",
        faults=("1.8", "27.22"),
        decided="the journal",
        says="A background run that was queued or running when the gateway died is taken up again at the start.",
    ),
    Promise(
        id="hadrian-dead-run-ends-at-the-start-not-an-hour-later",
        owed_by="A1",
        faults=("1.8", "27.22"),
        decided="the journal",
        says=(
            "A run whose process died and that cannot go on is ended `failed`, with what it had, as soon as the "
            "gateway starts."
        ),
    ),
    Promise(
        id="hadrian-truncate-keeps-system-items-and-shows-its-marker",
        owed_by="D",
        faults=("1.9", "24.11"),
        decided="compaction defaults",
        says=(
            "`truncate` keeps system items, drops no more than it must, and its marker reaches the model on every "
            "provider."
        ),
    ),
    Promise(
        id="hadrian-compaction-counts-shell-output",
        owed_by="D",
        faults=("1.9", "24.11"),
        decided="compaction",
        says="The estimate counts shell output at its size, and the loop compacts between its own turns too.",
    ),
    Promise(
        id="hadrian-file-url-refuses-http",
        owed_by="C",
        faults=("1.10",),
        decided="egress dialer",
        says="`file_url` with plain http is refused.",
    ),
    Promise(
        id="hadrian-file-url-checks-every-redirect",
        owed_by="C",
        faults=("1.10", "24.13", "27.25"),
        decided="egress dialer",
        says="Every redirect of a `file_url` is judged anew, and a refused address is not dialed.",
    ),
    Promise(
        id="hadrian-file-ids-are-the-ones-shown",
        owed_by="C",
        faults=("1.11",),
        says="The ids that `/v1/files` hands out are the ids that requests take.",
    ),
    Promise(
        id="hadrian-containers-switch-does-what-it-says",
        owed_by="C",
        faults=("1.12",),
        says=(
            "A configuration key that switches containers off leaves nothing that outlives a response; until it "
            "is built it is refused as unknown."
        ),
    ),
    Promise(
        id="hadrian-shell-function-call-never-leaks",
        owed_by="A1",
        faults=("1.13", "24.12"),
        says=(
            "A model's call of the function tool that stands for the shell never reaches the client as a "
            "`function_call`."
        ),
    ),
    Promise(
        id="hadrian-local-environment-is-never-run-by-the-gateway",
        owed_by="A1",
        faults=("1.14", "24.12"),
        decided="tool without environment",
        says='A shell tool with `environment.type = "local"` is never executed by the gateway, streaming or not.',
    ),
    Promise(
        id="hadrian-local-environment-call-goes-to-the-client",
        owed_by="D",
        faults=("1.14",),
        decided="client_passthrough",
        says=(
            "A call of a `local` shell comes out as a `shell_call` for the client, streaming or not, and the "
            "client's output goes on from there."
        ),
    ),
    Promise(
        id="hadrian-citations-stand-wherever-clients-look",
        owed_by="A1",
        faults=("1.15", "24.8", "27.7"),
        decided="citations",
        says=(
            "Citations are announced in the stream and stand in `content_part.done`, `output_item.done`, the "
            "final response, the unstreamed body and `GET`."
        ),
    ),
    Promise(
        id="hadrian-delete-removes-files-at-once",
        owed_by="A1",
        faults=("1.16",),
        says="After `DELETE /v1/containers/{id}` its files answer 404 and their bytes are gone.",
    ),
    Promise(
        id="hadrian-two-first-users-share-one-box",
        owed_by="A1",
        faults=("1.17",),
        says="Two responses that need the same sleeping container at once boot one box.",
    ),
    Promise(
        id="hadrian-secret-values-are-resolved-or-refused",
        owed_by="E",
        faults=("1.18",),
        says="A secret's `value` in the configuration is resolved at start, and one that cannot be is refused there.",
    ),
    Promise(
        id="hadrian-max-output-length-bounds-both-streams-together",
        owed_by="A1",
        faults=("1.19",),
        decided="stdout, stderr on the item",
        says="`max_output_length` of a call bounds stdout and stderr together.",
    ),
    Promise(
        id="hadrian-passthrough-is-configured-by-its-documented-name",
        owed_by="D",
        faults=("1.20",),
        decided="seed examples",
        says='`type = "passthrough_openai"` is the name that the configuration takes.',
    ),
    Promise(
        id="hadrian-opensandbox-is-configured-by-its-documented-name",
        owed_by="F",
        faults=("1.20",),
        decided="seed examples",
        says='`type = "opensandbox"` is the name that the configuration takes.',
    ),
)
