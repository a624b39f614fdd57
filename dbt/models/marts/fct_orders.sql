{{
    config(
        materialized='incremental',
        incremental_strategy='merge',
        unique_key='order_id',
        on_schema_change='append_new_columns',
        post_hook='alter table {{ this }} set change_tracking = true'
    )
}}

-- Current state of each order. A run reads the orders that have events written since the last one. Its changes are
-- tracked, because an export follows them: only the table's owner may begin that.
with changed as (
    select distinct events.order_id
    from {{ ref('fct_order_events') }} as events
    where {{ firn_written_since('events') }}
),

-- Of these orders alone: a window over all events would cost more with each event that the table has. An order's
-- records have one key, so they share a partition and keep their order.
placed as (
    select
        events.*,
        row_number() over (
            partition by events.order_id
            order by events.created_at desc, events.offset desc, events.partition desc
        ) = 1 as is_latest
    from {{ ref('int_order_events') }} as events
    inner join changed
        on events.order_id = changed.order_id
)

select
    placed.order_id,
    max(iff(placed.is_latest, placed.customer_id, null)) as customer_id,
    max(iff(placed.is_latest, placed.order_status, null)) as order_status,
    max(iff(placed.is_latest, statuses.is_final, null)) as is_final,
    max(iff(placed.is_latest, placed.order_total, null)) as order_total,
    min(placed.created_at) as first_event_at,
    max(placed.created_at) as last_event_at,
    count(*) as event_count,
    max(placed.loaded_at) as loaded_at
from placed
left join {{ ref('order_statuses') }} as statuses
    on placed.order_status = statuses.order_status
group by placed.order_id
