"""The shell tool of a request, its items and its events (lines 50 to 100)."""

from tests.wire.manifest.promise import Promise, span

TOOL = (
    Promise(
        id="retry-after-reaches-the-client",
        owed_by="A1",
        decided="provider time and retries",
        says="A provider's 429 or 503 that would outlast the retry budget reaches the client at once, with `Retry-After`.",
    ),
    Promise(
        id="prewarm-runs-nothing",
        owed_by="A1",
        decided="fields of OpenAI's requests",
        says=(
            "A request with `prompt_cache_options.prewarm` (or `generate: false`) completes without output: no model is asked, no "
            "command runs, and it can be chained on."
        ),
    ),
    Promise(
        id="context-management-is-never-dropped",
        owed_by="A1",
        decided="fields of OpenAI's requests",
        says=(
            "`context_management` is handed to providers that speak the Responses API; with all others the gateway compacts, or, where "
            "that is switched off, says in `notes` and in the log that it was not followed."
        ),
    ),
    Promise(
        id="item-references-are-resolved",
        owed_by="A1",
        decided="input items",
        says=(
            "An `item_reference` in the input, with or without its `type`, stands for the tenant's stored item of that id, for every "
            "provider; one that the chain has already is not told twice."
        ),
    ),
    Promise(
        id="unknown-item-reference-is-refused",
        owed_by="A1",
        decided="input items",
        says=(
            "An `item_reference` to an item that is not stored, or is another tenant's, gets 400 with code `item_not_found`, its place "
            "and its id, before anything is made."
        ),
    ),
    Promise(
        id="history-brings-its-container-back",
        owed_by="A1",
        decided="container_auto with a history",
        says=(
            "A request without `previous_response_id` whose input holds items of earlier turns goes on, with `container_auto` or no "
            "environment, in the newest active container that they speak of and that the tenant may use."
        ),
    ),
    Promise(
        id="gone-container-is-told-before-the-first-turn",
        owed_by="A1",
        decided="container_auto with a history",
        says="Where a conversation's container is gone, the model is told so before its first turn, in a chain as with a history.",
    ),
    Promise(
        id="wire-format-is-openais",
        owed_by="A1",
        lines=(51, 52),
        decided="the wire's truth",
        says="The official clients send shell requests and read the answers without a change, in strict mode.",
    ),
    Promise(
        id="environment-is-optional",
        owed_by="A1",
        lines=(52, 132),
        decided="tool without environment",
        says="A shell tool without an environment is hosted.",
    ),
    Promise(
        id="container-auto-is-taken",
        owed_by="A1",
        lines=span(53, 60),
        says='`environment.type = "container_auto"` gives the response a container.',
    ),
    Promise(
        id="tool-example-container-auto-is-accepted",
        owed_by="E",
        lines=span(53, 73),
        decided="seed examples",
        says="The seed's request with memory limit, expiry, allowlist and an inline secret is accepted as it stands.",
    ),
    Promise(
        id="memory-limit-of-the-tool-is-taken",
        owed_by="C",
        lines=(61,),
        decided="memory limits",
        says=(
            "`environment.memory_limit` takes `1g`, `4g`, `16g`, `64g` and free forms such as `512m`, inside the "
            "operator's cap."
        ),
    ),
    Promise(
        id="expires-after-of-the-tool-is-taken",
        owed_by="C",
        lines=(62,),
        says="`environment.expires_after` sets the idle TTL of the container that the response makes.",
    ),
    Promise(
        id="allowlist-of-the-tool-admits-exactly-its-hosts",
        owed_by="E",
        lines=(*span(63, 65), 231),
        decided="egress",
        says='With `network_policy.type = "allowlist"` commands reach the listed hosts and nothing else.',
    ),
    Promise(
        id="inline-secret-travels-with-the-request",
        owed_by="E",
        lines=(*span(66, 69), 87, 88),
        says=(
            "A secret `{domain, name, value}` is usable in the box under its name towards its domain, and the box "
            "never holds its value."
        ),
    ),
    Promise(
        id="secret-for-an-unlisted-host-opens-that-host",
        owed_by="E",
        lines=(65, 67),
        decided="secret for a host that isn't in allowed_domains",
        says=(
            "The host of a secret is reachable for requests that carry its placeholder, where the operator's list "
            "admits it."
        ),
    ),
    Promise(
        id="model-is-told-hosts-and-secret-names",
        owed_by="E",
        lines=(67, 189),
        decided="what the model is told",
        says="The model is told the allowed hosts and the names of the secret variables, never a value.",
    ),
    Promise(
        id="container-reference-attaches-an-existing-container",
        owed_by="A1",
        lines=(*span(73, 75), *span(79, 86), 229),
        says=(
            '`environment.type = "container_reference"` runs the commands in the container that it names, made by '
            "`POST /v1/containers` or by an earlier response."
        ),
    ),
    Promise(
        id="tool-example-container-reference-is-accepted",
        owed_by="A1",
        lines=span(76, 86),
        decided="seed examples",
        says=(
            "The seed's request with `container_reference` is accepted as it stands, with the id of a real container."
        ),
    ),
    Promise(
        id="reference-to-an-expired-container-is-refused",
        owed_by="A1",
        lines=(82, 83),
        decided="chain onto an expired container",
        says="A `container_reference` to an expired container gets 400 with code `container_expired`.",
    ),
    Promise(
        id="environment-of-a-chained-turn-narrows-the-chains-container",
        owed_by="C",
        lines=(73, 74),
        decided="environment on a chained turn",
        says=(
            "`container_auto` on a chained turn keeps the chain's container: narrower fields apply at once or are "
            "refused by name, wider ones get 400, `expires_after` replaces."
        ),
    ),
    Promise(
        id="secret-by-reference-keeps-its-value-in-the-gateway",
        owed_by="E",
        lines=span(89, 91),
        says=(
            "A secret `{placeholder, allowed_domains}` is matched against the operator's "
            "`allowed_domain_secrets`, and its value never leaves the gateway but towards those domains."
        ),
    ),
    Promise(
        id="shell-call-follows-the-item-lifecycle",
        owed_by="A1",
        lines=(92,),
        decided="event order",
        says=(
            "A shell call is streamed as added and done of a `shell_call`, then added and done of its "
            "`shell_call_output`, as the real service does."
        ),
    ),
    Promise(
        id="shell-call-added-fires-before-boot",
        owed_by="A1",
        lines=(93,),
        decided="event order",
        says="`response.output_item.added` with the `shell_call` is sent before the box is booted.",
    ),
    Promise(
        id="shell-call-is-added-in-progress",
        owed_by="A1",
        lines=(93,),
        says="The `shell_call` is added with status `in_progress`.",
    ),
    Promise(
        id="shell-call-output-is-added-as-a-placeholder",
        owed_by="A1",
        lines=(93,),
        decided="event order",
        says=(
            "A `shell_call_output` with the same `call_id` and no output yet is added with status `in_progress`, "
            "after its call is done and before anything slow."
        ),
    ),
    Promise(
        id="shell-call-done-names-its-container",
        owed_by="A1",
        lines=(93,),
        says="The done `shell_call` carries `environment` as the `container_reference` that was resolved.",
    ),
    Promise(
        id="shell-call-done-is-completed-unless-its-arguments-broke-off",
        owed_by="A1",
        lines=(93,),
        decided="status of items",
        says=(
            "The done `shell_call` is `completed` once it was handed over, and `incomplete` only when its "
            "arguments broke off."
        ),
    ),
    Promise(
        id="shell-call-output-carries-both-streams",
        owed_by="A1",
        lines=(93,),
        decided="stdout, stderr on the item",
        says=(
            "The done `shell_call_output` carries stdout and stderr apart, whole up to 1 MiB each; where they are "
            "cut this is marked, and a file that the output names holds the whole."
        ),
    ),
    Promise(
        id="shell-call-output-has-one-entry-for-each-command",
        owed_by="A1",
        lines=(93,),
        decided="several commands in one call",
        says=(
            "Several commands of one call run one after the other, each with an output entry of its own in their "
            "order; files carry over, working directory and exports don't."
        ),
    ),
    Promise(
        id="exit-outcome-carries-the-code",
        owed_by="A1",
        lines=(93,),
        decided="outcomes on the wire",
        says=(
            "A command that ended has outcome `exit` with its exit code, 128 + n when signal n killed it, and a "
            "code other than 0 leaves the item `completed`."
        ),
    ),
    Promise(
        id="timeout-outcome-keeps-the-output-so-far",
        owed_by="A1",
        lines=(93,),
        decided="outcomes on the wire",
        says="A command that ran out of time has outcome `timeout`, its output so far, and an `incomplete` item.",
    ),
    Promise(
        id="lost-command-is-exit-125",
        owed_by="A1",
        lines=(93,),
        decided="outcomes on the wire",
        says=(
            "A command that was lost or could not be run has outcome `exit` 125, one sentence in stderr, and an "
            "`incomplete` item."
        ),
    ),
    Promise(
        id="aborted-command-is-exit-130",
        owed_by="D",
        lines=(93,),
        decided="outcomes on the wire",
        says="A command stopped by a cancel has outcome `exit` 130, its output so far, and an `incomplete` item.",
    ),
    Promise(
        id="output-files-lists-what-the-call-wrote",
        owed_by="A1",
        lines=(93,),
        decided="output_files",
        says=(
            "The done `shell_call_output` lists in `output_files` every file under `/mnt/data` that the call captured."
        ),
    ),
    Promise(
        id="shell-events-show-output-while-it-comes",
        owed_by="A1",
        lines=span(94, 96),
        decided="live output",
        says=(
            "Commands and their output are streamed by the five `response.shell_call_*` events while they come, "
            "which the seed believed not to exist."
        ),
    ),
    Promise(
        id="stream-output-false-turns-the-deltas-off",
        owed_by="A1",
        lines=(94, 95),
        decided="live output",
        says=(
            "`features.shell.stream_output = false` sends no shell deltas; output then stands on the terminal "
            "events alone."
        ),
    ),
    Promise(
        id="typed-clients-read-the-lifecycle",
        owed_by="A1",
        lines=(96,),
        says="A client typed against OpenAI's stream reads every event of a shell response in strict mode.",
    ),
    Promise(
        id="a-providers-own-end-is-told-in-words-of-the-api",
        owed_by="A1",
        lines=(96,),
        decided="outcomes on the wire",
        says=(
            "A provider's failure with a code that OpenAI's API does not have is `server_error` with that code in its message; a "
            "reason of its own for an incomplete answer is left out."
        ),
    ),
    Promise(
        id="model-is-shown-head-and-tail-of-long-output",
        owed_by="A1",
        lines=(97,),
        decided="stdout, stderr on the item",
        says="Output beyond 8,000 characters is fed back to the model as head and tail with the cut marked.",
    ),
    Promise(
        id="item-of-long-output-has-head-and-tail",
        owed_by="A1",
        lines=(97,),
        decided="stdout, stderr on the item",
        says=(
            "Beyond `max_item_output_bytes` a stream keeps its head and its true tail, on the item and in the model's copy; what is cut "
            "is counted, and the marker names the file that has all of it."
        ),
    ),
    Promise(
        id="history-sent-back-is-trimmed-for-the-model",
        owed_by="A1",
        lines=(97,),
        says="Shell output that a client sends back in its input reaches the model cut to head and tail, as the gateway's own does.",
    ),
    Promise(
        id="max-output-length-of-the-call-wins",
        owed_by="A1",
        lines=(97,),
        decided="stdout, stderr on the item",
        says="A call's own `max_output_length` replaces the 8,000 characters and is repeated on the output item.",
    ),
    Promise(
        id="function-tool-description-guides-long-output",
        owed_by="A1",
        lines=span(97, 100),
        says=(
            "The description of the function tool tells the model to send long output to a file under `/mnt/data` "
            "and to read it with grep or tail."
        ),
    ),
    Promise(
        id="function-tool-description-tells-where-it-is",
        owed_by="A1",
        lines=(99, 190),
        decided="command_timeout_secs",
        says=(
            "The description of the function tool says where commands run, what persists, the time limit and "
            "whether there is a network."
        ),
    ),
)
