"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _responses()
    _journal()
    _executions()
    _containers()
    _container_files()
    op.create_table(
        "counters",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("value", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name", name="pk_counters"),
    )


def _responses() -> None:
    op.create_table(
        "responses",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("container_id", sa.Text),
        sa.Column("previous_response_id", sa.Text),
        sa.Column("background", sa.Boolean(create_constraint=False), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("completed_at", sa.BigInteger),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("input", sa.Text, nullable=False),
        sa.Column("usage", sa.Text),
        sa.Column("error", sa.Text),
        sa.PrimaryKeyConstraint("number", name="pk_responses"),
        sa.UniqueConstraint("id", name="uq_responses_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_responses_status", "responses", ["status"])


def _journal() -> None:
    op.create_table(
        "journal",
        sa.Column("response_id", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("step", sa.Integer, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("exec_id", sa.Text),
        sa.Column("stream", sa.Text),
        sa.Column("raw_offset", sa.BigInteger),
        sa.PrimaryKeyConstraint("response_id", "seq", name="pk_journal"),
        sa.ForeignKeyConstraint(["response_id"], ["responses.id"], name="fk_journal_response_id", ondelete="CASCADE"),
    )


def _executions() -> None:
    op.create_table(
        "executions",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("exec_id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("response_id", sa.Text, nullable=False),
        sa.Column("container_id", sa.Text, nullable=False),
        sa.Column("boot_id", sa.Text, nullable=False),
        sa.Column("step", sa.Integer, nullable=False),
        sa.Column("call_id", sa.Text, nullable=False),
        sa.Column("command_index", sa.Integer, nullable=False),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("outcome", sa.Text),
        sa.Column("finished_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("number", name="pk_executions"),
        sa.UniqueConstraint("exec_id", name="uq_executions_exec_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_executions_response_id", "executions", ["response_id"])
    op.create_index("ix_executions_container_id_finished_at", "executions", ["container_id", "finished_at"])


def _containers() -> None:
    op.create_table(
        "containers",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("last_active_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("idle_ttl", sa.BigInteger, nullable=False),
        sa.Column("memory_limit", sa.Text),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("ref", sa.Text),
        sa.Column("boot_id", sa.Text),
        sa.Column("user_id", sa.BigInteger),
        sa.Column("source_response_id", sa.Text),
        sa.PrimaryKeyConstraint("number", name="pk_containers"),
        sa.UniqueConstraint("id", name="uq_containers_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_containers_tenant_number", "containers", ["tenant", "number"])
    op.create_index("ix_containers_status", "containers", ["status"])
    op.create_index("ix_containers_user_id", "containers", ["user_id"])


def _container_files() -> None:
    op.create_table(
        "container_files",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("container_id", sa.Text, nullable=False),
        sa.Column("path", sa.LargeBinary, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("content_type", sa.Text),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("modified", sa.BigInteger, nullable=False),
        sa.Column("identity", sa.BigInteger, nullable=False),
        sa.Column("changed", sa.BigInteger, nullable=False),
        sa.Column("too_large", sa.Boolean(create_constraint=False), nullable=False),
        sa.Column("response_id", sa.Text),
        sa.PrimaryKeyConstraint("number", name="pk_container_files"),
        sa.UniqueConstraint("id", name="uq_container_files_id"),
        sa.UniqueConstraint("container_id", "path", name="uq_container_files_container_id_path"),
        sa.ForeignKeyConstraint(
            ["container_id"], ["containers.id"], name="fk_container_files_container_id", ondelete="CASCADE"
        ),
        sqlite_autoincrement=True,
    )
