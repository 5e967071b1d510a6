"""Where sandboxes come from: each runtime is one file or folder, and none imports another."""
