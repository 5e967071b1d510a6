"""The steps from an empty database to today's tables, in order. A step that was released is never changed."""
