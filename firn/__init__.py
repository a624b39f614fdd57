"""What every room shares: settings, secrets, clients and errors. Knows nothing of Spark or Prefect."""
