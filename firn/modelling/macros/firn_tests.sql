{# Generic tests of generated marts. Both look at the last var('firn_test_days') days of pushed records: the cost of a
   run must not grow with the table. -#}

{# Fails with each combination of `columns` that occurs more than once. #}
{% test firn_unique_combination(model, columns) %}
select
    {% for column in columns %}rows_tested.{{ column }}, {% endfor %}
    count(*) as occurrences
from {{ model }} as rows_tested
where {{ firn_recent('rows_tested') }}
group by {% for column in columns %}rows_tested.{{ column }}{{ ", " if not loop.last }}{% endfor %}
having count(*) > 1
{% endtest %}

{# Fails with each record of `staging` that the mart lacks though it holds later ones of its partition. Records above
   those are merely new: a sink that runs at the same time does not fail this test. #}
{% test firn_holds_every_record(model, staging) %}
with high_water as (
    select
        held.topic,
        held.partition,
        max(held.offset) as offset
    from {{ model }} as held
    where {{ firn_recent('held') }}
    group by held.topic, held.partition
)

select
    events.topic,
    events.partition,
    events.offset
from {{ staging }} as events
inner join high_water
    on
        events.topic = high_water.topic
        and events.partition = high_water.partition
        and events.offset <= high_water.offset
left join {{ model }} as held
    on
        events.topic = held.topic
        and events.partition = held.partition
        and events.offset = held.offset
where
    {{ firn_recent('events') }}
    and not events.is_tombstone
    and held.topic is null
{% endtest %}

{# A predicate: rows of an alias that were pushed in the last days, and those without a push time. #}
{% macro firn_recent(rows) -%}
({{ rows }}.pushed_at is null or {{ rows }}.pushed_at >= dateadd(day, -{{ var('firn_test_days', 3) | int }}, sysdate()))
{%- endmacro %}
