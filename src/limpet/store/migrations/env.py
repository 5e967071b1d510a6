"""What Alembic runs: the steps, on the connection and in the transaction that `database` opened. All of them hold, or none."""

from alembic import context

from limpet.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=True,
)
context.run_migrations()
