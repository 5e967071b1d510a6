"""The tables, for every dialect. Binding: later work adds columns and tables, and never changes what one of these means.

Each table has `tenant`. Times are microseconds since 1970 UTC. `number` grows with each row, is never given out again and is
what lists page by. A change here needs a step in `migrations/versions`; a test compares the two.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    UniqueConstraint,
)

from limpet.store.columns import Json, Number, Path, Text, Unsigned, named_metadata

metadata = named_metadata()

responses = Table(
    "responses",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("tenant", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("container_id", Text),
    Column("previous_response_id", Text),
    Column("conversation_id", Text),
    Column("background", Boolean(create_constraint=False), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("completed_at", BigInteger),
    Column("owner", Text, nullable=False),
    Column("request", Json, nullable=False),
    Column("input", Json, nullable=False),
    Column("usage", Json),
    Column("error", Json),
    # What its run has used up, beside `usage`: model turns and seconds. NULL until its end.
    Column("spent", Json),
    Index(None, "status"),
    Index(None, "conversation_id"),
    Index(None, "previous_response_id"),
    Index(None, "completed_at"),
    sqlite_autoincrement=True,
)

# One row per event. `data` is the event's JSON object in its stored form; `raw_offset` is the raw position of `stream` up to
# which the emitted text is complete, set only where a decoder and a redactor may start afresh.
journal = Table(
    "journal",
    metadata,
    Column("response_id", Text, ForeignKey("responses.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("tenant", Text, nullable=False),
    Column("step", Integer, nullable=False),
    Column("type", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("exec_id", Text),
    Column("stream", Text),
    Column("raw_offset", BigInteger),
)

# Who carries a stored response, and what its next carrier must know beside the journal. Each time that it is taken over its epoch grows;
# what is appended to the journal under an older one is refused.
runs = Table(
    "runs",
    metadata,
    Column("response_id", Text, ForeignKey("responses.id", ondelete="CASCADE"), primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("heartbeat_at", BigInteger, nullable=False),
    Column("checkpoint", LargeBinary),
    # Its secrets, sealed (`store/sealing.py`) until it ends.
    Column("sealed", LargeBinary),
    # When another process asked its carrier to cancel it.
    Column("cancel_at", BigInteger),
    # When it was last read at a gateway that does not carry it.
    Column("read_at", BigInteger),
    Index(None, "owner"),
)

# Which response an item that a client may name later came out of; written with the response's end.
response_items = Table(
    "response_items",
    metadata,
    Column("response_id", Text, ForeignKey("responses.id", ondelete="CASCADE"), primary_key=True),
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Index(None, "tenant", "id"),
)

conversations = Table(
    "conversations",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("tenant", Text, nullable=False),
    Column("metadata", Json, nullable=False),
    Column("container_id", Text),
    Column("revision", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)

# The items of conversations, in the order of `number`. `provider` is set on what a response said; `item` is NULL once it was deleted.
conversation_items = Table(
    "conversation_items",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("conversation_id", Text, ForeignKey("conversations.id", ondelete="CASCADE"), nullable=False),
    Column("response_id", Text),
    Column("provider", Text),
    Column("item", Json),
    UniqueConstraint("conversation_id", "id"),
    Index(None, "tenant", "id"),
    sqlite_autoincrement=True,
)

# Which response was made for a request with an `Idempotency-Key`, and a digest of that request.
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("response_id", Text, ForeignKey("responses.id", ondelete="CASCADE"), nullable=False),
    Index(None, "response_id"),
)

# What the responses of a tenant have used up, by the hour in which they ended and by the model that they asked. Outlives them.
usage_hours = Table(
    "usage_hours",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("hour", BigInteger, primary_key=True, autoincrement=False),
    Column("model", Text, primary_key=True),
    Column("responses", BigInteger, nullable=False),
    Column("turns", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("wall_us", BigInteger, nullable=False),
)

webhook_endpoints = Table(
    "webhook_endpoints",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("tenant", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("event_types", Json, nullable=False),
    # Sealed (`store/sealing.py`).
    Column("secret", LargeBinary, nullable=False),
    Column("old_secret", LargeBinary),
    Column("old_until", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index(None, "tenant", "number"),
    sqlite_autoincrement=True,
)

# What an endpoint is owed; the row goes when it was delivered or is given up.
webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("tenant", Text, nullable=False),
    Column("endpoint_id", Text, ForeignKey("webhook_endpoints.id", ondelete="CASCADE"), nullable=False),
    Column("event_id", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", BigInteger, nullable=False),
    Index(None, "endpoint_id"),
    Index(None, "next_at"),
    sqlite_autoincrement=True,
)

# A command is written down here before it starts. Runs that are not stored have no row in `responses`, hence no reference.
executions = Table(
    "executions",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("exec_id", Text, nullable=False, unique=True),
    Column("tenant", Text, nullable=False),
    Column("response_id", Text, nullable=False),
    Column("container_id", Text, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("step", Integer, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("command_index", Integer, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("outcome", Json),
    Column("finished_at", BigInteger),
    Index(None, "response_id"),
    Index(None, "container_id", "finished_at"),
    sqlite_autoincrement=True,
)

containers = Table(
    "containers",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("tenant", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("last_active_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("idle_ttl", BigInteger, nullable=False),
    Column("memory_limit", Text),
    Column("spec", Json, nullable=False),
    Column("ref", Json),
    Column("boot_id", Text),
    Column("user_id", BigInteger),
    Column("source_response_id", Text),
    # The directory that its own lies in; NULL is the home's.
    Column("directory", Text),
    # Its secrets and its door's authority, sealed until it ends.
    Column("sealed", LargeBinary),
    # Of several gateways on one database: the home that its box and its files lie in. NULL where there is only one.
    Column("home", Text),
    Index(None, "tenant", "number"),
    Index(None, "status"),
    Index(None, "user_id"),
    sqlite_autoincrement=True,
)

container_files = Table(
    "container_files",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("tenant", Text, nullable=False),
    Column("container_id", Text, ForeignKey("containers.id", ondelete="CASCADE"), nullable=False),
    Column("path", Path, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("content_type", Text),
    Column("source", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("modified", BigInteger, nullable=False),
    Column("identity", Unsigned, nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("too_large", Boolean(create_constraint=False), nullable=False),
    Column("response_id", Text),
    Column("exec_id", Text),
    # Where its bytes are kept beside the box's directory: a row of `blobs`; NULL where only the directory has them.
    Column("blob", Text),
    UniqueConstraint("container_id", "path"),
    sqlite_autoincrement=True,
)

# Where bytes are kept: one row before the first of them is written, gone after the last is removed. `id` is what other rows refer
# to, and stays when the bytes move; `place` and `key` are where they are now. `area` is the section of [storage] that decides where
# new ones go. `state`: pending (being written, not readable yet), moving (the same, by `limpet storage move`), kept, doomed.
blobs = Table(
    "blobs",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("tenant", Text, nullable=False),
    Column("area", Text, nullable=False),
    Column("place", Text, nullable=False),
    Column("key", Text, nullable=False, unique=True),
    Column("state", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Index(None, "state"),
    Index(None, "tenant", "area"),
    sqlite_autoincrement=True,
)

# The bytes of blobs whose place is this database, a block each. The last part is written last: without it there is no blob.
blob_parts = Table(
    "blob_parts",
    metadata,
    Column("key", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("tenant", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("is_last", Boolean(create_constraint=False), nullable=False),
)

# The Files API. A deleted or expired row stays for a while without its name and its bytes, so that a list can be continued behind it.
uploads = Table(
    "uploads",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("tenant", Text, nullable=False),
    Column("filename", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("content_type", Text),
    Column("bytes", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("blob", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("ended_at", BigInteger),
    Index(None, "tenant", "number"),
    Index(None, "expires_at"),
    Index(None, "ended_at"),
    sqlite_autoincrement=True,
)

# The gateways that share this database, by their homes: where each is reached by the others, and when it was last alive.
nodes = Table(
    "nodes",
    metadata,
    Column("home", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("address", Text),
    Column("seen_at", BigInteger, nullable=False),
)

# The last value given out of each series that is not a row's own number, such as the users of boxes.
counters = Table(
    "counters",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

# API keys, for `[auth] mode = "keys"`. `digest` is of the key's secret half; the key itself is not stored.
api_keys = Table(
    "api_keys",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("tenant", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("scopes", Json, nullable=False),
    Column("requests_per_minute", BigInteger),
    Column("concurrent", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    sqlite_autoincrement=True,
)

# A skill says what its default version says. Versions count up from 1 and are never given out again; `blob` is the bundle as a zip.
skills = Table(
    "skills",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("tenant", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("default_version", BigInteger, nullable=False),
    Column("last_version", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Index(None, "tenant", "name"),
    sqlite_autoincrement=True,
)

skill_versions = Table(
    "skill_versions",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("tenant", Text, nullable=False),
    Column("skill_id", Text, ForeignKey("skills.id", ondelete="CASCADE"), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("blob", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    UniqueConstraint("skill_id", "version"),
    sqlite_autoincrement=True,
)

# Containers at a provider that runs shells itself: all tenants share its account there, and each sees its own.
provider_containers = Table(
    "provider_containers",
    metadata,
    Column("container_id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)
