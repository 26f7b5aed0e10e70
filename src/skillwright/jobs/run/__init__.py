"""What several jobs are made of: benches, tasks, memory, money, progress."""
