-- One row per loaded record: tombstones and repeated records are still here.
select
    records.record_metadata:topic::varchar as topic,
    records.record_metadata:partition::number(38, 0) as partition,
    records.record_metadata:offset::number(38, 0) as offset,
    {{ unix_ms_to_timestamp("coalesce(records.record_metadata:CreateTime, records.record_metadata:LogAppendTime)") }}
        as kafka_timestamp,
    {{ unix_ms_to_timestamp("records.record_metadata:SnowflakeConnectorPushTime") }} as pushed_at,
    records.record_metadata:key::varchar as record_key,
    records.record_metadata:schema_id::number(38, 0) as schema_id,
    records.record_metadata:headers as headers,
    coalesce(array_size(object_keys(records.record_content)), 0) = 0 as is_tombstone,
    records.record_content:order_id::number(38, 0) as order_id,
    records.record_content:customer_id::varchar as customer_id,
    records.record_content:order_status::varchar as order_status,
    records.record_content:order_total::float as order_total,
    {{ unix_ms_to_timestamp("records.record_content:created_at") }} as created_at
from {{ source('streaming', 'order_events') }} as records
