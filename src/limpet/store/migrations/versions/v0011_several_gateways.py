"""Where a container lies, and runs that another process wants cancelled."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("containers", sa.Column("home", sa.Text))
    op.add_column("runs", sa.Column("cancel_at", sa.BigInteger))
