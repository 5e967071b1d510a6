"""Where sandboxes come from: one provider is one file or folder, and none knows another."""
