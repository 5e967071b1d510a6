"""The weaknesses of the server that the seed describes (chapter 24) and what is to be done better (27): each is a test that we pass."""

from tests.wire.manifest.promise import Promise

HADRIAN_WEAKNESSES = (
    Promise(
        id="hadrian-only-files-of-this-response-are-cited",
        owed_by="A1",
        faults=("24.8",),
        decided="citations",
        says="Uploads and files of earlier responses are not cited.",
    ),
    Promise(
        id="hadrian-silent-command-keeps-its-stream",
        owed_by="A1",
        faults=("24.1", "27.12"),
        decided="silence",
        says=(
            "A command that prints nothing for minutes keeps its client's stream open with comments, and no idle "
            "limit ends it."
        ),
    ),
    Promise(
        id="hadrian-silent-command-is-not-run-twice",
        owed_by="D",
        faults=("24.1",),
        decided="silence",
        says="A background command that prints nothing is never taken for dead and run a second time.",
    ),
    Promise(
        id="hadrian-infrastructure-failure-is-told-to-the-model",
        owed_by="A1",
        faults=("24.2", "27.13"),
        decided="infrastructure failure",
        says=(
            "A box that cannot run a command is told to the model in the tool output; the response never ends "
            "`completed` in silence."
        ),
    ),
    Promise(
        id="hadrian-history-is-not-staged-again",
        owed_by="C",
        faults=("24.3", "27.14"),
        says="A chained turn does not write earlier `input_file` parts again over what the model made of them.",
    ),
    Promise(
        id="hadrian-inline-files-survive-a-chain",
        owed_by="C",
        faults=("24.3",),
        says="A request with `file_data` can be chained on.",
    ),
    Promise(
        id="hadrian-inline-files-run-in-the-background",
        owed_by="D",
        faults=("24.3",),
        says="A request with `file_data` can run in the background.",
    ),
    Promise(
        id="hadrian-oversized-file-stays-marked",
        owed_by="C",
        faults=("24.4", "27.18"),
        says="A file over the limit is listed as too big, is never stored or brought back empty.",
    ),
    Promise(
        id="hadrian-deleted-file-stays-deleted",
        owed_by="C",
        faults=("24.4", "27.17"),
        says="A file deleted in the box or through the API does not come back, also not after a restart.",
    ),
    Promise(
        id="hadrian-upload-appears-in-a-live-container",
        owed_by="C",
        faults=("24.5", "27.16"),
        says="A file uploaded through the API is seen by the next command of a live container.",
    ),
    Promise(
        id="hadrian-cursor-is-exact-at-both-ends",
        owed_by="A1",
        faults=("24.6", "27.19"),
        says="`starting_after` repeats and skips nothing, at 0 and at the last number.",
    ),
    Promise(
        id="hadrian-reader-ends-in-every-terminal-case",
        owed_by="A1",
        faults=("24.6", "27.20"),
        says="A stream of a response that ended, however it ended, ends too.",
    ),
    Promise(
        id="hadrian-replay-holds-no-foreign-event",
        owed_by="A1",
        faults=("24.6",),
        says="A replayed stream holds the events that were sent live and no other.",
    ),
    Promise(
        id="hadrian-cancel-stops-the-command",
        owed_by="D",
        faults=("24.9", "27.21"),
        says=(
            "A cancel kills the running command with all its descendants within two seconds and keeps the output "
            "so far."
        ),
    ),
    Promise(
        id="hadrian-leaving-an-unstored-response-stops-its-command",
        owed_by="A1",
        faults=("24.9",),
        says="When the client of an unstored response leaves, its command is gone within two seconds.",
    ),
    Promise(
        id="hadrian-leaving-a-stored-response-changes-nothing",
        owed_by="A1",
        faults=("24.9",),
        decided="a client that leaves",
        says="When the client of a stored response leaves for less than the grace time, the response goes on as if it had stayed.",
    ),
    Promise(
        id="hadrian-left-foreground-response-is-cancelled",
        owed_by="D",
        faults=("24.9",),
        decided="a client that leaves",
        says=(
            "A stored foreground response that nobody has read for `leave_grace_secs` is cancelled; one in the background "
            "never is."
        ),
    ),
    Promise(
        id="hadrian-no-response-stays-in-progress",
        owed_by="A1",
        faults=("24.10",),
        says="A response whose provider failed is ended `failed` and does not stay `in_progress`.",
    ),
    Promise(
        id="hadrian-secrets-are-sealed-and-never-echoed",
        owed_by="E",
        faults=("24.15", "27.24"),
        decided="secrets on POST /v1/containers",
        says="Inline secrets are in the database only sealed, and in no answer, log or stream.",
    ),
    Promise(
        id="hadrian-another-tenants-ids-are-unknown",
        owed_by="C",
        faults=("24.16", "27.23"),
        says="Another owner's container, file or response answers 404, and keys have scopes.",
    ),
    Promise(
        id="hadrian-secrets-last-as-long-as-their-request",
        owed_by="E",
        faults=("24.17",),
        decided="secrets on POST /v1/containers",
        says="A secret of one request is not usable by the next request in the same container.",
    ),
    Promise(
        id="hadrian-policy-of-a-live-box-follows-the-request",
        owed_by="E",
        faults=("24.17",),
        decided="environment on a chained turn",
        says="A narrower policy of a later request holds in a box that is already live.",
    ),
    Promise(
        id="hadrian-shell-output-is-redacted",
        owed_by="E",
        faults=("24.18",),
        says=(
            "Known secret values and token shapes are redacted from shell output before it is stored, streamed or "
            "logged."
        ),
    ),
    Promise(
        id="hadrian-capture-costs-what-changed",
        owed_by="C",
        faults=("24.19", "27.29"),
        says="Capturing costs what changed, not what the workspace holds, and no captured bytes stay in memory.",
    ),
    Promise(
        id="hadrian-container-has-one-home",
        owed_by="D",
        faults=("24.20",),
        decided="scale: leases",
        says=(
            "With several gateways on one database a container has one box, and requests that arrive elsewhere "
            "reach it."
        ),
    ),
    Promise(
        id="hadrian-cleanup-runs-by-itself",
        owed_by="C",
        faults=("24.21",),
        says="Rows and bytes of ended containers are removed without a switch to be found first.",
    ),
    Promise(
        id="hadrian-quotas-bound-each-tenant",
        owed_by="C",
        faults=("24.22", "27.31"),
        says="Containers, live boxes, files and bytes are bounded for each tenant, with the numbers in the error.",
    ),
    Promise(
        id="hadrian-every-box-expires",
        owed_by="A1",
        faults=("24.23",),
        decided="container of a response",
        says="No box is out of reach of the idle expiry, that of an unstored response included.",
    ),
    Promise(
        id="hadrian-output-is-seen-while-it-comes",
        owed_by="A1",
        faults=("24.24",),
        decided="live output",
        says="A client sees a command's output before the command has ended.",
    ),
    Promise(
        id="hadrian-operator-can-enter-a-box",
        owed_by="A2",
        faults=("24.24",),
        says="`limpet shell --container` opens a terminal in a container's box.",
    ),
    Promise(
        id="hadrian-plain-linux-host-is-enough",
        owed_by="A1",
        faults=("24.25",),
        says="A Linux host with bubblewrap and without KVM, Docker or another service runs hosted shell calls.",
    ),
    Promise(
        id="hadrian-running-command-holds-its-container",
        owed_by="A1",
        faults=("24.26",),
        decided="idle TTL",
        says=(
            "A command that runs longer than the idle TTL does not lose its container, and the TTL counts from its end."
        ),
    ),
    Promise(
        id="hadrian-ids-have-their-prefixes",
        owed_by="A1",
        faults=("27.1",),
        decided="ids",
        says=(
            "Ids are `resp_`, `sh_`, `sho_`, `cntr_`, `cfile_` and `msg_` with 128 random bits; the two items of "
            "a call share `call_id` and not `id`."
        ),
    ),
    Promise(
        id="hadrian-environment-union-is-checked",
        owed_by="C",
        faults=("27.2",),
        says="Every wrong field of a shell environment gets 400 with `param` and what would be right.",
    ),
    Promise(
        id="hadrian-outcome-is-exit-or-timeout",
        owed_by="A1",
        faults=("27.4",),
        decided="outcomes on the wire",
        says="`outcome` is `exit` with `exit_code` or `timeout`, and nothing else.",
    ),
    Promise(
        id="hadrian-output-files-name-container-and-file",
        owed_by="A1",
        faults=("27.5",),
        decided="output_files",
        says=(
            "Each entry of `output_files` names container, file id, filename, path and bytes, and can be "
            "downloaded by them."
        ),
    ),
    Promise(
        id="hadrian-response-names-its-container",
        owed_by="A1",
        faults=("27.6",),
        decided="output_files, container_id",
        says=(
            "`container_id` stands on the response in the stream, in the body and in `GET`, on every turn of a chain."
        ),
    ),
    Promise(
        id="hadrian-lists-have-openais-envelope",
        owed_by="A1",
        faults=("27.8",),
        says="Every list is `{object, data, first_id, last_id, has_more}`, the empty one too.",
    ),
    Promise(
        id="hadrian-errors-have-openais-envelope",
        owed_by="A1",
        faults=("27.9",),
        says='Every error is `{"error": {message, type, param, code}}` with all four keys.',
    ),
    Promise(
        id="hadrian-delete-answers-with-the-deleted-object",
        owed_by="A1",
        faults=("27.10",),
        decided="DELETE",
        says="A DELETE answers 200 with OpenAI's deleted object, not 204.",
    ),
    Promise(
        id="hadrian-background-answers-200",
        owed_by="D",
        faults=("27.10",),
        decided="background",
        says="A background request is answered with 200, not 202.",
    ),
    Promise(
        id="hadrian-model-is-told-directory-and-network",
        owed_by="A1",
        faults=("27.28",),
        says="The model is told the real working directory and whether there is a network.",
    ),
    Promise(
        id="hadrian-model-is-told-the-staged-names",
        owed_by="C",
        faults=("27.28",),
        says="The model is told the final names of the files that were staged for it.",
    ),
    Promise(
        id="hadrian-parallel-calls-run-in-their-order",
        owed_by="A1",
        faults=("27.30",),
        decided="several commands in one call",
        says="Several calls of one model turn run in the order in which the model made them.",
    ),
    Promise(
        id="hadrian-background-with-stream-streams-at-once",
        owed_by="D",
        faults=("27.32",),
        decided="background",
        says="`background: true` with `stream: true` streams from the first event on.",
    ),
)
