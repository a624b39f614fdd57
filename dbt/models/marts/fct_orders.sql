{{ config(materialized='view') }}

-- Latest state of each order. An order's records have one key, so they share a partition and keep their order.
select
    events.order_id,
    events.customer_id,
    events.order_status,
    events.order_total,
    events.created_at as last_event_at,
    min(events.created_at) over (partition by events.order_id) as first_event_at,
    count(*) over (partition by events.order_id) as event_count
from {{ ref('fct_order_events') }} as events
qualify
    row_number() over (
        partition by events.order_id
        order by events.created_at desc, events.offset desc
    ) = 1
