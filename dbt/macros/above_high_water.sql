{#
  A predicate: rows of `records` above the highest offset that `relation` holds of their topic and partition.

  Offsets are committed in order within a partition, so nothing below its high water can still arrive; a timestamp
  promises no such thing (one partition may lag hours behind another). Each term is a plain comparison with a literal, so
  that Snowflake can skip micro-partitions by their minimum and maximum: partitions are numbered from 0 without
  gaps, hence "not seen yet" is a list of numbers and one lower bound.
  `relation` and `records` (an alias) both have the columns topic, partition and offset.
#}
{% macro above_high_water(relation, records) -%}
{%- set marks -%}
select seen.topic, seen.partition, max(seen.offset) as high_water
from {{ relation }} as seen
group by seen.topic, seen.partition
{%- endset -%}
{%- set high_water = {} -%}
{%- if execute -%}
{%- for topic, partition, offset in run_query(marks).rows -%}
{%- do high_water.setdefault(topic | replace("'", "''"), {}).update({partition | int: offset | int}) -%}
{%- endfor -%}
{%- endif -%}
(
    {%- if high_water %}
    {{ records }}.topic not in ('{{ high_water | join("', '") }}')
    {%- for topic, offsets in high_water | dictsort %}
    {%- set last = offsets | max %}
    or ({{ records }}.topic = '{{ topic }}' and (
        {{ records }}.partition > {{ last }}
        {%- for partition in range(last + 1) %}
        or {{ records }}.partition = {{ partition }}
        {%- if partition in offsets %} and {{ records }}.offset > {{ offsets[partition] }}{% endif %}
        {%- endfor %}
    ))
    {%- endfor %}
    {%- else %}
    true
    {%- endif %}
)
{%- endmacro %}
