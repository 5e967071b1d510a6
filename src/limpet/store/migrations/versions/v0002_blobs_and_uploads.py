"""Where bytes are kept, and the Files API."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _blobs()
    _uploads()
    op.add_column("container_files", sa.Column("blob", sa.Text))


def _blobs() -> None:
    op.create_table(
        "blobs",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("area", sa.Text, nullable=False),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_blobs"),
        sa.UniqueConstraint("id", name="uq_blobs_id"),
        sa.UniqueConstraint("key", name="uq_blobs_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_blobs_state", "blobs", ["state"])
    op.create_index("ix_blobs_tenant_area", "blobs", ["tenant", "area"])
    op.create_table(
        "blob_parts",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("is_last", sa.Boolean(create_constraint=False), nullable=False),
        sa.PrimaryKeyConstraint("key", "number", name="pk_blob_parts"),
    )


def _uploads() -> None:
    op.create_table(
        "uploads",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("filename", sa.Text, nullable=False),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("content_type", sa.Text),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("blob", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("number", name="pk_uploads"),
        sa.UniqueConstraint("id", name="uq_uploads_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_uploads_tenant_number", "uploads", ["tenant", "number"])
    op.create_index("ix_uploads_expires_at", "uploads", ["expires_at"])
    op.create_index("ix_uploads_ended_at", "uploads", ["ended_at"])
