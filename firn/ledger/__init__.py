"""What is committed, who may commit, and what people want of each sink: the tables beside the target."""
