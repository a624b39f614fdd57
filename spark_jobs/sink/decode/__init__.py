"""Keys and values of Kafka records to JSON text, one Arrow batch at a time; `converters` finds a format's folder.

Every family of formats has a folder with the same modules: `converter` (what the registry leads to), `values` (bytes
to JSON text) and, where it has schemas, `types` (the columns they ask for) and `schema` (reads them, unless
`firn.registry` does); what one family needs for itself lies beside them. Families know nothing of each other. They
stand on `framing` (Confluent's wire format), `connect` (Kafka Connect's data model) and `base` (the contract, and
texts that all need). Pure: Arrow in, Arrow out; schemas come from a callable. Not for headers and RECORD_METADATA
(`metadata`), reading Kafka, or talking to a registry.

Why text, and why Avro has two decoders: docs/decisions/0004-converters-give-json-text.md and 0002-two-decoders.md.
"""
