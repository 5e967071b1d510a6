"""What is kept: the tables, the records in them, the journal and the home directory they live in."""
