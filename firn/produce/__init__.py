"""Records into a topic: sample orders or a file of any schema, in Avro with the registry's framing.

Not a general client: Firn produces to show and to load, an application has its own producer.
"""
