"""What Prefect is told of Firn and shows: events, artifacts, forms; its deployments and automations.

Not for flows: those are the modules above.
"""
