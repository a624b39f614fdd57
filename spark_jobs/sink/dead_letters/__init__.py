"""Bad records in tasks: counted, left out, and published as dead letters by one writer a partition.

docs/decisions/0005-dead-letters.md has the protocol. Not for deciding which records are bad (`decode`), nor for what is
in Kafka afterwards (`firn.dead_letters`).
"""
