"""Who carries a response."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("response_id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("heartbeat_at", sa.BigInteger, nullable=False),
        sa.Column("checkpoint", sa.LargeBinary),
        sa.ForeignKeyConstraint(["response_id"], ["responses.id"], ondelete="CASCADE", name="fk_runs_response_id"),
        sa.PrimaryKeyConstraint("response_id", name="pk_runs"),
    )
    op.create_index("ix_runs_owner", "runs", ["owner"])
