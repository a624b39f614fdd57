"""RECORD_METADATA: a record's place, times, key and headers as JSON text."""
