"""Jobs: files of tasks with an order, what becomes of them step by step, and the processes that carry them out."""
