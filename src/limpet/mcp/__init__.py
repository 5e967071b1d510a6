"""The MCP server: a workspace's tools for any MCP client, over standard input and output or over HTTP. An edge without logic."""
