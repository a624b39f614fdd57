"""Method SNOWPIPE: Parquet files in a stage, and COPY in the transaction of the ledger."""
