"""Dead letters in Kafka: what one looks like, published exactly once, read and replayed."""
