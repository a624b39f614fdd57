{{
    config(
        materialized='incremental',
        incremental_strategy='delete+insert',
        unique_key='event_date',
        on_schema_change='append_new_columns'
    )
}}

-- Order events by day and status. A run counts those days again that have events written since the last one.
with changed as (
    select distinct events.created_at::date as event_date
    from {{ ref('fct_order_events') }} as events
    where {{ firn_written_since('events') }}
)

select
    events.created_at::date as event_date,
    events.order_status,
    count(*) as event_count,
    count(distinct events.order_id) as order_count,
    sum(events.order_total)::number(38, 2) as order_total,
    max(events.loaded_at) as loaded_at
from {{ ref('int_order_events') }} as events
inner join changed
    on events.created_at::date = changed.event_date
group by events.created_at::date, events.order_status
