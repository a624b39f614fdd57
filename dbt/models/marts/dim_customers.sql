{{
    config(
        materialized='incremental',
        incremental_strategy='merge',
        unique_key='customer_id',
        on_schema_change='append_new_columns'
    )
}}

-- Each customer with the current state of their orders. A run reads the customers that ever stood in an order that has
-- events written since the last one: an order may pass from one customer to another.
with changed as (
    select distinct others.customer_id
    from {{ ref('fct_order_events') }} as events
    inner join {{ ref('fct_order_events') }} as others
        on events.order_id = others.order_id
    where {{ firn_written_since('events') }}
),

seen as (
    select
        events.customer_id,
        max(events.loaded_at) as loaded_at
    from {{ ref('fct_order_events') }} as events
    inner join changed
        on events.customer_id = changed.customer_id
    group by events.customer_id
)

select
    seen.customer_id,
    count(orders.order_id) as order_count,
    count_if(not orders.is_final) as open_order_count,
    coalesce(sum(iff(orders.order_status = 'DELIVERED', orders.order_total, 0)), 0)::number(38, 2) as delivered_total,
    min(orders.first_event_at) as first_order_at,
    max(orders.last_event_at) as last_event_at,
    max(seen.loaded_at) as loaded_at
from seen
left join {{ ref('fct_orders') }} as orders
    on seen.customer_id = orders.customer_id
group by seen.customer_id
