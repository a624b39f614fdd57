"""dbt models from registered schemas: staging views, typed marts and child tables, with their documents and tests.

Not for running dbt (`firn.dbt`), and not for models that combine subjects: people write those on top.
"""
