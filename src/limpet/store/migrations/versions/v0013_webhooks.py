"""Endpoints that are told of events, and what they are owed."""

import sqlalchemy as sa
from alembic import op

from limpet.store.columns import Json

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "webhook_endpoints",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("event_types", Json, nullable=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
        sa.Column("old_secret", sa.LargeBinary),
        sa.Column("old_until", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_webhook_endpoints"),
        sa.UniqueConstraint("id", name="uq_webhook_endpoints_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_webhook_endpoints_tenant_number", "webhook_endpoints", ["tenant", "number"])
    op.create_table(
        "webhook_deliveries",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("endpoint_id", sa.Text, nullable=False),
        sa.Column("event_id", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_at", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["endpoint_id"],
            ["webhook_endpoints.id"],
            ondelete="CASCADE",
            name="fk_webhook_deliveries_endpoint_id",
        ),
        sa.PrimaryKeyConstraint("number", name="pk_webhook_deliveries"),
        sa.UniqueConstraint("id", name="uq_webhook_deliveries_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_webhook_deliveries_endpoint_id", "webhook_deliveries", ["endpoint_id"])
    op.create_index("ix_webhook_deliveries_next_at", "webhook_deliveries", ["next_at"])
