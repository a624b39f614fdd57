"""What Prefect shows of Firn: events, artifacts, forms; its deployments and automations.

Not for flows: those are the modules above.
"""
