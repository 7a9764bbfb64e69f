"""The small process that owns a command's processes while a lease lasts, and stops them before it ends."""
