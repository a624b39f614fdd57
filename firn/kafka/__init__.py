"""Kafka for everything here: what clients are told, a cluster's topics and offsets, ranges of records as Arrow."""
