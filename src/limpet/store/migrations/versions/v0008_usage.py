"""What responses have used up."""

import sqlalchemy as sa
from alembic import op

from limpet.store.columns import Json

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("responses", sa.Column("spent", Json))
    op.create_table(
        "usage_hours",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("hour", sa.BigInteger, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("responses", sa.BigInteger, nullable=False),
        sa.Column("turns", sa.BigInteger, nullable=False),
        sa.Column("input_tokens", sa.BigInteger, nullable=False),
        sa.Column("cached_tokens", sa.BigInteger, nullable=False),
        sa.Column("output_tokens", sa.BigInteger, nullable=False),
        sa.Column("wall_us", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "hour", "model", name="pk_usage_hours"),
    )
