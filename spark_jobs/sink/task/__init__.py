"""What runs in Spark tasks: one pass over ranges of offsets, from Kafka to what the method acknowledged."""
