"""Images: root file systems from OCI layouts, archives, tars and registries, unpacked once and shown to boxes read-only."""
