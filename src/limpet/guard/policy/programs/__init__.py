"""What everyday programs may run, read, write and destroy: tables and readers of their arguments. Pure."""
