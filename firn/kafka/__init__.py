"""The one way into Kafka: configuration of clients, a cluster's topics and offsets, ranges of records as Arrow."""
