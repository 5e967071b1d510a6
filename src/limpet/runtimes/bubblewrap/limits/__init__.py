"""What bounds a box: memory, processes, CPU, disk and what the kernel keeps for it."""
