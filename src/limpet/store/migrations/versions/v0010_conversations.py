"""Conversations and their items; idempotency keys."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("responses", sa.Column("conversation_id", sa.Text))
    op.create_index("ix_responses_conversation_id", "responses", ["conversation_id"])
    op.create_table(
        "conversations",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("container_id", sa.Text),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_conversations"),
        sa.UniqueConstraint("id", name="uq_conversations_id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "conversation_items",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("conversation_id", sa.Text, nullable=False),
        sa.Column("response_id", sa.Text),
        sa.Column("provider", sa.Text),
        sa.Column("item", sa.Text),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            ondelete="CASCADE",
            name="fk_conversation_items_conversation_id",
        ),
        sa.PrimaryKeyConstraint("number", name="pk_conversation_items"),
        sa.UniqueConstraint("conversation_id", "id", name="uq_conversation_items_conversation_id_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_conversation_items_tenant_id", "conversation_items", ["tenant", "id"])
    _create_idempotency_keys()


def _create_idempotency_keys() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("response_id", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(
            ["response_id"], ["responses.id"], ondelete="CASCADE", name="fk_idempotency_keys_response_id"
        ),
        sa.PrimaryKeyConstraint("tenant", "key", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_response_id", "idempotency_keys", ["response_id"])
