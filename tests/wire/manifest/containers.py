"""Containers as a resource: their calls, their skills, their time to live (lines 131 to 181)."""

from tests.wire.manifest.promise import Promise, span

CONTAINERS = (
    Promise(
        id="shell-response-has-a-container-before-it-is-created",
        owed_by="A1",
        lines=(132,),
        decided="container of a response",
        says=(
            "Every response with a hosted shell tool has a container row before `response.created`; its `tools` "
            "echo the `container_reference`, also when the model never calls it."
        ),
    ),
    Promise(
        id="response-names-its-container",
        owed_by="A1",
        lines=(10, 132),
        decided="output_files, container_id",
        says="A response with a hosted shell carries `container_id`.",
    ),
    Promise(
        id="created-container-is-bound-by-reference",
        owed_by="A1",
        lines=span(132, 134),
        says="A container made by `POST /v1/containers` serves every later response that refers to it.",
    ),
    Promise(
        id="containers-post-creates-an-empty-container",
        owed_by="A1",
        lines=(135,),
        says="`POST /v1/containers` answers with a new, empty container.",
    ),
    Promise(
        id="containers-get-shows-metadata-and-ttl",
        owed_by="A1",
        lines=(136,),
        says="`GET /v1/containers/{id}` answers with the container's metadata and its TTL.",
    ),
    Promise(
        id="containers-delete-tears-down-and-cascades",
        owed_by="A1",
        lines=(137,),
        decided="DELETE",
        says=(
            "`DELETE /v1/containers/{id}` ends the box, removes the container's files, and answers 200 with "
            "OpenAI's deleted object."
        ),
    ),
    Promise(
        id="deleted-container-is-not-found",
        owed_by="A1",
        lines=(137,),
        decided="expires_at after the end",
        says="A deleted container answers 404.",
    ),
    Promise(
        id="container-files-post-uploads-into-mnt-data",
        owed_by="C",
        lines=(138,),
        says="`POST /v1/containers/{id}/files` puts a multipart upload into `/mnt/data`.",
    ),
    Promise(
        id="container-files-post-takes-a-file-id",
        owed_by="C",
        lines=(138,),
        decided="the wire's truth",
        says='`POST /v1/containers/{id}/files` also takes the JSON `{"file_id": …}` that OpenAI takes.',
    ),
    Promise(
        id="container-files-are-listed",
        owed_by="A1",
        lines=(139,),
        says="`GET /v1/containers/{id}/files` lists the files of `/mnt/data` in OpenAI's list envelope.",
    ),
    Promise(
        id="container-file-metadata-is-shown",
        owed_by="A1",
        lines=(140,),
        says="`GET /v1/containers/{id}/files/{file}` answers with the file's metadata.",
    ),
    Promise(
        id="container-file-is-removed",
        owed_by="C",
        lines=(141,),
        says="`DELETE /v1/containers/{id}/files/{file}` removes the file from the store and from the box.",
    ),
    Promise(
        id="container-file-content-is-raw-bytes",
        owed_by="A1",
        lines=(142,),
        says="`GET /v1/containers/{id}/files/{file}/content` answers with raw bytes.",
    ),
    Promise(
        id="containers-post-takes-a-name",
        owed_by="A1",
        lines=span(142, 144),
        says="`POST /v1/containers` takes `name` and shows it again.",
    ),
    Promise(
        id="containers-post-takes-a-memory-limit",
        owed_by="C",
        lines=(145,),
        decided="memory limits",
        says="`POST /v1/containers` takes `memory_limit`, inside the operator's cap.",
    ),
    Promise(
        id="a-strict-client-lists-containers-of-any-memory",
        owed_by="C",
        lines=(145,),
        decided="memory limits",
        says=(
            "A container's `memory_limit` is shown only where it is `1g`, `4g`, `16g` or `64g`, which OpenAI's schema has; "
            "`memory_limit_bytes` says any amount, so a strict client can list containers with free ones."
        ),
    ),
    Promise(
        id="containers-post-takes-an-expiry",
        owed_by="C",
        lines=(146,),
        says="`POST /v1/containers` takes `expires_after` as the container's idle TTL.",
    ),
    Promise(
        id="containers-post-takes-a-network-policy",
        owed_by="E",
        lines=span(147, 150),
        decided="egress",
        says=(
            "`POST /v1/containers` takes a `network_policy` that holds at every later boot, and never shows a "
            "secret of it again."
        ),
    ),
    Promise(
        id="containers-post-secrets-live-sealed-until-expiry",
        owed_by="E",
        lines=span(147, 150),
        decided="secrets on POST /v1/containers",
        says="Inline secrets of `POST /v1/containers` live sealed in the container's row until it expires.",
    ),
    Promise(
        id="unenforceable-network-policy-is-refused",
        owed_by="C",
        lines=span(147, 150),
        decided="egress",
        says="A network policy that the runtime cannot enforce is refused, never dropped.",
    ),
    Promise(
        id="containers-post-takes-skills",
        owed_by="C",
        lines=span(151, 163),
        decided="skills",
        says="`POST /v1/containers` takes skills by reference and inline, and they are there in the box.",
    ),
    Promise(
        id="containers-post-example-is-accepted",
        owed_by="E",
        lines=span(142, 164),
        decided="seed examples",
        says="The seed's body for `POST /v1/containers` is accepted as it stands, with a skill that exists.",
    ),
    Promise(
        id="skill-reference-resolves-to-a-stored-skill",
        owed_by="C",
        lines=(164,),
        decided="skill ids and errors",
        says="A `skill_reference` finds a stored skill by `skill_…` id, bare UUID or name.",
    ),
    Promise(
        id="inline-markdown-becomes-skill-md",
        owed_by="C",
        lines=span(164, 166),
        decided="inline markdown skill",
        says="An inline skill of `text/markdown` becomes a SKILL.md with the name and description of the request.",
    ),
    Promise(
        id="inline-zip-skill-is-unpacked",
        owed_by="C",
        lines=(166,),
        decided="skills",
        says="An inline skill of `application/zip`, the only kind that OpenAI takes, is unpacked safely.",
    ),
    Promise(
        id="other-inline-skill-types-are-refused",
        owed_by="C",
        lines=(166, 167),
        decided="skill ids and errors",
        says=(
            "An inline skill of any other media type gets 400 with code `unsupported_inline_skill_media_type` "
            "before anything is created."
        ),
    ),
    Promise(
        id="unused-container-ends-with-its-response",
        owed_by="C",
        lines=(166,),
        decided="container that ran nothing",
        says=(
            "A container that a response made, in which nothing ran and to which nothing was given, takes no quota and ends "
            "with that response; a chain onto it gets a new one, and the model is told nothing."
        ),
    ),
    Promise(
        id="skill-front-matter-is-plain-text",
        owed_by="C",
        lines=(166,),
        decided="skills",
        says=(
            "Front matter with anchors, aliases, merge keys or tags, or with a name or description that YAML takes for "
            "something else than text, gets 400 in words; it is never evaluated."
        ),
    ),
    Promise(
        id="skills-of-a-request-share-one-bound",
        owed_by="C",
        lines=(166,),
        decided="skills",
        says=(
            "All skills of one request, and all of one container, share one bound of unpacked bytes, files and time: beyond "
            "it 413 `skill_too_large`, and nothing is created."
        ),
    ),
    Promise(
        id="skill-version-may-be-pinned",
        owed_by="C",
        lines=span(167, 169),
        decided="skills",
        says="`version` takes `latest`, a number or nothing (the default version).",
    ),
    Promise(
        id="unknown-skill-version-is-refused",
        owed_by="C",
        lines=(168, 169),
        decided="skill ids and errors",
        says=(
            "A version that does not exist gets 400 with code `unsupported_skill_version` before anything is "
            "created; no other version is served instead."
        ),
    ),
    Promise(
        id="containers-are-listed-in-openais-envelope",
        owed_by="A1",
        lines=(170, 171),
        says=(
            "`GET /v1/containers` answers with `{object, data, first_id, last_id, has_more}`, newest first, and "
            "`limit` and `after` page through it without gap or repeat."
        ),
    ),
    Promise(
        id="containers-list-shows-the-callers-own",
        owed_by="C",
        lines=(171, 172),
        says="`GET /v1/containers` lists the containers of the caller's tenant alone.",
    ),
    Promise(
        id="container-boots-at-its-first-command",
        owed_by="A1",
        lines=(173,),
        says="A container is created without a box; the box boots at the first command that needs it.",
    ),
    Promise(
        id="container-is-shared-implicitly-and-explicitly",
        owed_by="A1",
        lines=(174, 175, 228),
        says=(
            "A container is reached again by `previous_response_id` without naming it, and by "
            "`container_reference` by its id."
        ),
    ),
    Promise(
        id="chain-onto-an-expired-container-gets-a-fresh-one",
        owed_by="A1",
        lines=(174,),
        decided="chain onto an expired container",
        says="A response chained onto an expired container gets a fresh one, and the model is told.",
    ),
    Promise(
        id="container-shows-when-it-was-created",
        owed_by="A1",
        lines=(177, 178),
        says="`created_at` is the second in which the container was made.",
    ),
    Promise(
        id="last-active-at-moves-with-every-operation",
        owed_by="C",
        lines=(178,),
        decided="idle TTL",
        says="`last_active_at` moves with every operation on the container, not with shell calls alone.",
    ),
    Promise(
        id="expires-at-is-a-forward-estimate",
        owed_by="C",
        lines=(178,),
        decided="output_files, expires_at",
        says="`expires_at` of a live container is `last_active_at` plus its TTL, at every moment.",
    ),
    Promise(
        id="expires-at-after-the-end-is-the-transition",
        owed_by="C",
        lines=(178,),
        decided="expires_at after the end",
        says="`expires_at` of an expired container is the time of its expiry; it answers 200 with status `expired`.",
    ),
    Promise(
        id="container-shows-its-idle-ttl",
        owed_by="A1",
        lines=(178,),
        decided="output_files, idle_ttl_secs",
        says="`expires_at` and `idle_ttl_secs` stand on the container beside OpenAI's fields.",
    ),
    Promise(
        id="reaper-marks-idle-rows-expired",
        owed_by="A1",
        lines=(179,),
        says="A row is marked `expired` once its idle TTL has passed, with nobody asking for it.",
    ),
    Promise(
        id="reaper-acts-within-five-seconds",
        owed_by="C",
        lines=(179,),
        decided="idle TTL",
        says="Expiry happens at most 5 s after its time, and never under a running command.",
    ),
    Promise(
        id="default-idle-ttl-is-twenty-minutes",
        owed_by="A1",
        lines=(48, *span(179, 181)),
        says="The idle TTL is 20 minutes, or what `[features.containers] default_idle_ttl_secs` says.",
    ),
    Promise(
        id="container-network-is-shown",
        owed_by="E",
        decided="egress",
        says=(
            "`GET /v1/containers/{id}/network` tells the hosts that a running container reached and was refused since the gateway "
            "started, with connections and bytes."
        ),
    ),
    Promise(
        id="response-summarises-network-use",
        owed_by="E",
        decided="egress",
        says=(
            "A response whose container used its network meanwhile has `network`: connections, refusals and bytes, in all and by host; "
            "every other response has no such key."
        ),
    ),
    Promise(
        id="container-ports-are-listed",
        owed_by="C",
        decided="preview of ports",
        says="`GET /v1/containers/{id}/ports` lists the TCP ports on which commands of the container listen.",
    ),
    Promise(
        id="container-port-carries-http",
        owed_by="C",
        decided="preview of ports",
        says="What lies below `/v1/containers/{id}/ports/{port}/` is answered by the server on that port, byte for byte.",
    ),
    Promise(
        id="container-port-carries-websocket",
        owed_by="C",
        decided="preview of ports",
        says="WebSockets are carried to a port under the same path.",
    ),
    Promise(
        id="container-port-takes-any-tcp-by-upgrade",
        owed_by="C",
        decided="preview of ports",
        says="`GET /v1/containers/{id}/ports/{port}` with `Upgrade: limpet-tcp` becomes a connection to that port.",
    ),
    Promise(
        id="container-port-link-expires",
        owed_by="C",
        decided="preview of ports",
        says="`POST /v1/containers/{id}/ports/{port}` makes a link that opens that port and nothing else, until it expires.",
    ),
    Promise(
        id="container-port-is-isolated-from-the-gateway",
        owed_by="C",
        decided="preview of ports",
        says="What a port answers sets no cookie, has an origin of its own in a browser, and sees neither key nor cookie of the client.",
    ),
)
