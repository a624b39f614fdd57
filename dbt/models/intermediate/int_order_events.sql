-- Order events with an exact amount, and their place among the events of their order. An order's records have one key,
-- so they share a partition and keep their order.
select
    events.order_id,
    events.customer_id,
    events.order_status,
    -- NaN and infinities are no amounts: null.
    try_to_number(events.order_total::varchar, 38, 2) as order_total,
    events.created_at,
    events.loaded_at,
    row_number() over (
        partition by events.order_id
        order by events.created_at desc, events.offset desc, events.partition desc
    ) = 1 as is_latest
from {{ ref('fct_order_events') }} as events
