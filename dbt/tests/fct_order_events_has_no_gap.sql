-- Order events below their partition's high water that the mart does not hold. Rows above it are merely new: a sink
-- that runs at the same time does not fail this test.
with high_water as (
    select
        held.topic,
        held.partition,
        max(held.offset) as offset
    from {{ ref('fct_order_events') }} as held
    group by held.topic, held.partition
)

select
    events.topic,
    events.partition,
    events.offset
from {{ ref('stg_order_events') }} as events
inner join high_water
    on
        events.topic = high_water.topic
        and events.partition = high_water.partition
        and events.offset <= high_water.offset
left join {{ ref('fct_order_events') }} as held
    on
        events.topic = held.topic
        and events.partition = held.partition
        and events.offset = held.offset
where
    not events.is_tombstone
    and held.topic is null
