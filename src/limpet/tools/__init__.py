"""What a model sees of a workspace: tools, each a name, a description, a JSON schema and a call."""
