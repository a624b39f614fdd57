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
)

select
    events.order_id,
    max(iff(events.is_latest, events.customer_id, null)) as customer_id,
    max(iff(events.is_latest, events.order_status, null)) as order_status,
    max(iff(events.is_latest, statuses.is_final, null)) as is_final,
    max(iff(events.is_latest, events.order_total, null)) as order_total,
    min(events.created_at) as first_event_at,
    max(events.created_at) as last_event_at,
    count(*) as event_count,
    max(events.loaded_at) as loaded_at
from {{ ref('int_order_events') }} as events
inner join changed
    on events.order_id = changed.order_id
left join {{ ref('order_statuses') }} as statuses
    on events.order_status = statuses.order_status
group by events.order_id
