"""What the operator bounds, compaction, background runs and the rest of the seed (lines 182 to 238)."""

from tests.wire.manifest.promise import Promise, span

LIMITS = (
    Promise(
        id="request-narrows-the-operators-limits",
        owed_by="C",
        lines=span(183, 185),
        says=(
            "A request may ask for less than `[features.server_tools.shell_limits]` allows; asking for more gets "
            "400 naming field, asked and allowed."
        ),
    ),
    Promise(
        id="memory-default-and-cap-hold",
        owed_by="C",
        lines=(186, 187),
        decided="memory limits",
        says=(
            "`default_mem_limit_mb` holds without a request's `memory_limit`, and none above `max_mem_limit_mb` "
            "is accepted."
        ),
    ),
    Promise(
        id="box-has-no-network-by-default",
        owed_by="A1",
        lines=(188,),
        decided="egress",
        says="A bubblewrap box without a network policy has loopback alone.",
    ),
    Promise(
        id="requested-hosts-are-a-subset-of-the-operators",
        owed_by="E",
        lines=(188,),
        decided="egress",
        says=(
            "Every host of a request's `allowed_domains` must be admitted by `allowed_egress_hosts`, else 400 "
            "naming the host."
        ),
    ),
    Promise(
        id="empty-operator-list-grants-nothing",
        owed_by="E",
        lines=(188,),
        decided="egress",
        says=(
            "An empty `allowed_egress_hosts` grants no host on any runtime; an open network exists only by its name."
        ),
    ),
    Promise(
        id="operator-secret-is-used-by-name",
        owed_by="E",
        lines=(189,),
        says=(
            "A secret of `allowed_domain_secrets` is used by the model under its name, and the value is never "
            "seen by it."
        ),
    ),
    Promise(
        id="secret-domains-are-a-subset-of-the-operators",
        owed_by="E",
        lines=(189,),
        says=(
            "`allowed_domains` of a secret in a request must lie within that secret's own hosts, else 400 naming both."
        ),
    ),
    Promise(
        id="command-timeout-caps-every-command",
        owed_by="A1",
        lines=(190,),
        decided="command_timeout_secs",
        says="`command_timeout_secs` (300) caps every command; a call's `timeout_ms` can only lower it.",
    ),
    Promise(
        id="compaction-crosses-a-threshold",
        owed_by="D",
        lines=(192, 193),
        decided="compaction",
        says=(
            "`context_management` with type `compaction` compacts the history once its estimate crosses "
            "`compact_threshold`, from 1,000 on."
        ),
    ),
    Promise(
        id="native-compaction-is-forwarded",
        owed_by="D",
        lines=(193, 194),
        decided="compaction defaults",
        says=(
            "A provider that compacts natively is given the directive, without the fields that are extensions of ours."
        ),
    ),
    Promise(
        id="gateway-compacts-for-every-other-provider",
        owed_by="D",
        lines=span(194, 196),
        decided="compaction",
        says=(
            "For every other provider the gateway compacts before it asks, and the marker or summary reaches the model."
        ),
    ),
    Promise(
        id="compaction-is-a-sealed-item",
        owed_by="D",
        lines=(193, 206),
        decided="compaction",
        says="A compaction shows as OpenAI's `compaction` item with sealed content, which is taken back as input.",
    ),
    Promise(
        id="compaction-example-is-accepted",
        owed_by="D",
        lines=span(197, 204),
        decided="seed examples",
        says="The seed's `context_management` with `strategy` and `prompt` is accepted as it stands.",
    ),
    Promise(
        id="compaction-strategy-falls-back-to-the-default",
        owed_by="D",
        lines=(204, 205),
        says="A request without `strategy` is compacted by `default_strategy`.",
    ),
    Promise(
        id="truncate-drops-the-oldest-items",
        owed_by="D",
        lines=(206,),
        decided="compaction defaults",
        says=(
            "`truncate` drops the oldest items until the estimate is under the threshold; system items and the "
            "newest stay, calls keep their outputs, and one marker stands for the rest."
        ),
    ),
    Promise(
        id="llm-summarises-what-is-dropped",
        owed_by="D",
        lines=(206,),
        decided="compaction defaults",
        says=(
            "`llm` makes one call to the same provider and model with the request's `prompt`, else "
            "`default_prompt`, puts the summary in place, and falls back to `truncate` when the call fails."
        ),
    ),
    Promise(
        id="gateway-compaction-is-opt-in",
        owed_by="D",
        lines=span(207, 210),
        decided="compaction defaults",
        says=(
            "Compaction by the gateway is off until `enabled = true`; a directive that is then not followed is logged."
        ),
    ),
    Promise(
        id="toml-example-compaction-is-accepted",
        owed_by="D",
        lines=span(207, 213),
        decided="seed examples",
        says="The seed's `[features.responses.compaction]` starts the gateway as it stands.",
    ),
    Promise(
        id="compaction-threshold-has-a-default",
        owed_by="D",
        lines=(211,),
        decided="compaction defaults",
        says="Without `compact_threshold` the threshold is `default_threshold_tokens` (12,000).",
    ),
    Promise(
        id="newest-items-are-never-compacted",
        owed_by="D",
        lines=(212,),
        decided="compaction defaults",
        says="The newest `keep_recent_items` (6) items are never compacted.",
    ),
    Promise(
        id="compaction-on-demand",
        owed_by="D",
        decided="OpenAI's Responses API",
        says=(
            "`POST /v1/responses/compact` gives the messages of the user and one compaction, which go on as input with "
            "what the conversation knew and in its container; providers that have this address are asked."
        ),
    ),
    Promise(
        id="compaction-trigger-gives-one-item",
        owed_by="D",
        decided="OpenAI's Responses API",
        says="A `compaction_trigger` at the end of the input gives a response with exactly one item, a compaction.",
    ),
    Promise(
        id="foreign-compaction-is-refused",
        owed_by="D",
        decided="compaction",
        says=(
            "A compaction that was changed, or sealed with another key, for another tenant or by another provider is refused with 400 "
            "`invalid_encrypted_content`, naming its place."
        ),
    ),
    Promise(
        id="background-example-is-accepted",
        owed_by="D",
        lines=span(214, 220),
        decided="seed examples",
        says="The seed's background request is accepted as it stands.",
    ),
    Promise(
        id="background-answers-at-once",
        owed_by="D",
        lines=(221, 233),
        decided="background",
        says="A background request is answered with 200 and a `resp_…` id before the work begins.",
    ),
    Promise(
        id="background-runs-as-foreground-does",
        owed_by="D",
        lines=(221,),
        says="A background response gives the same items and events as the same request in the foreground.",
    ),
    Promise(
        id="every-event-is-stored-before-it-is-sent",
        owed_by="A1",
        lines=(221,),
        decided="the journal",
        says=(
            "Every event of a stored response is in the journal before a client sees it, and a later reader sees "
            "the same events under the same numbers."
        ),
    ),
    Promise(
        id="stored-stream-replays-after-a-restart",
        owed_by="A1",
        lines=(221,),
        decided="the journal",
        says=(
            "After the gateway was killed and started again a stored response streams every event that a client "
            "had seen, under the same numbers."
        ),
    ),
    Promise(
        id="run-goes-on-after-a-restart",
        owed_by="D",
        lines=(221,),
        decided="the journal",
        says=(
            "A run whose gateway was killed goes on after the restart to its end; nothing is executed twice, lost "
            "or renumbered."
        ),
    ),
    Promise(
        id="stream-resumes-after-a-number",
        owed_by="A1",
        lines=(222, 223),
        says=(
            "`?stream=true&starting_after=N` sends exactly the events after number N, stored ones first, then "
            "live ones."
        ),
    ),
    Promise(
        id="events-are-named-sse",
        owed_by="A1",
        lines=(223, 224),
        says="Each event is framed as `event: <type>` and `data: <JSON>` whose `type` is the same.",
    ),
    Promise(
        id="hosted-tools-of-others-are-relayed-or-left-out",
        owed_by="D",
        lines=span(236, 238),
        decided="hosted tools that we don't run",
        says=(
            "Hosted tools that the gateway does not run (`mcp`, `web_search`, …) are relayed where the provider "
            "has them; elsewhere they are left out and named in the log, a header and a note of the response, or "
            "refused with 400 where `tool_choice` forces them."
        ),
    ),
    Promise(
        id="hosted-tools-can-be-refused",
        owed_by="A1",
        decided="hosted tools that we don't run",
        says='`[features.server_tools] unsupported = "refuse"` refuses such tools with 400, naming the tool.',
    ),
    Promise(
        id="namespaces-are-flattened-and-back",
        owed_by="A1",
        decided="hosted tools that we don't run",
        says=(
            "Tools in a `namespace` and `custom` tools are functions for providers that know no others; a call of one "
            "reaches the client as a call of that tool, with its namespace."
        ),
    ),
    Promise(
        id="skills-are-mounted-into-the-box",
        owed_by="C",
        lines=(238,),
        decided="skills",
        says=(
            "Skills of a request or container are mounted read-only in the box, also in a live one, and the model "
            "is told name, description and path."
        ),
    ),
    Promise(
        id="hosted-commands-pass-the-operators-policy",
        owed_by="B",
        decided="rules of hosted shells",
        says=(
            "A command that `[features.shell.policy]` refuses is not run: its entry has exit code 126 and the reason in `stderr`, the item "
            "is completed, and the model goes on."
        ),
    ),
    Promise(
        id="hosted-output-is-redacted",
        owed_by="B",
        decided="rules of hosted shells",
        says="With `[features.shell.redaction]` no event, item, journal row or kept output of a command shows what it hides.",
    ),
    Promise(
        id="hosted-commands-leave-an-audit-record",
        owed_by="B",
        decided="rules of hosted shells",
        says="Every hosted command leaves one `shell_audit` line: tenant, container, response, exec id, exit code, duration.",
    ),
)
