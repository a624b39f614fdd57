{{
    config(
        materialized='incremental',
        incremental_strategy='merge',
        unique_key=['topic', 'partition', 'offset'],
        on_schema_change='append_new_columns'
    )
}}

select
    events.topic,
    events.partition,
    events.offset,
    events.kafka_timestamp,
    events.pushed_at,
    events.record_key,
    events.schema_id,
    events.order_id,
    events.customer_id,
    events.order_status,
    events.order_total,
    events.created_at
from {{ ref('stg_order_events') }} as events
where
    not events.is_tombstone
    {% if is_incremental() %}
        and {{ above_high_water(this, 'events') }}
    {% endif %}
-- A sink writes each record once; a table that an at-least-once connector filled repeats some, and MERGE refuses that.
qualify
    row_number() over (
        partition by events.topic, events.partition, events.offset
        order by events.pushed_at desc
    ) = 1
