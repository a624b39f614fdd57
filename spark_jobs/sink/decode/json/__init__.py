"""JSON: plain, in Connect's envelope, and framed with a JSON Schema."""
