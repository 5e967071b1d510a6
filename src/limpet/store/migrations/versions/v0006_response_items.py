"""Which response an item came out of."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "response_items",
        sa.Column("response_id", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(
            ["response_id"], ["responses.id"], ondelete="CASCADE", name="fk_response_items_response_id"
        ),
        sa.PrimaryKeyConstraint("response_id", "id", name="pk_response_items"),
    )
    op.create_index("ix_response_items_tenant_id", "response_items", ["tenant", "id"])
