"""What a container and a run hold sealed."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("containers", sa.Column("sealed", sa.LargeBinary))
    op.add_column("runs", sa.Column("sealed", sa.LargeBinary))
