"""Containers: workspaces with a record, an owner, a time to live, and files that can be listed and downloaded."""
