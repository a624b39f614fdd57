"""An epoch whose rows travel in tasks that live as long as it: groups of partitions, watched through Kafka."""
