-- Order events with an exact amount.
select
    events.order_id,
    events.partition,
    events.offset,
    events.customer_id,
    events.order_status,
    -- NaN and infinities are no amounts: null.
    try_to_number(events.order_total::varchar, 38, 2) as order_total,
    events.created_at,
    events.loaded_at
from {{ ref('fct_order_events') }} as events
