"""Strings, bytes, booleans and numbers of Kafka's own serializers."""
