"""WS-Agreement documents in and out: a bounded adapter beside JSON, which is the native form."""
