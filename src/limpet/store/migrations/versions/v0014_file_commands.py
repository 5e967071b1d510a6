"""Files are recorded with the command that they were seen after: a run that is taken up again tells its calls' files apart."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("container_files", sa.Column("exec_id", sa.Text))
