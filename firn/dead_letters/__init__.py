"""Dead letters in Kafka: their envelope, which of them are published, how they are read and replayed."""
