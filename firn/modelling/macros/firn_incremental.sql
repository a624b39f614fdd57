{#
  What an incremental mart reads. A run takes the records that were pushed since the newest one it holds, minus
  var('firn_lookback_hours'): records are committed a little after they are pushed, and not in the order of that time.
  Of those it takes what it does not hold yet, or holds in an older copy; so a replay changes nothing, and a full refresh
  gives the same rows. Bounds are literals, so that Snowflake prunes micro-partitions.

  dbt build --vars '{firn_backfill_from: "2026-03-01", firn_backfill_to: "2026-03-02"}' reads a range of push times
  (UTC, the end excluded) instead.
#}

{# The bounds of a run: {'from': text or none, 'to': text or none, 'added': columns that the table lacks}. #}
{% macro firn_since() -%}
    {%- set since = {'from': none, 'to': none, 'added': []} -%}
    {%- if execute and is_incremental() -%}
        {%- do since.update(added=firn_added_columns()) -%}
        {%- if var('firn_backfill_from', none) or var('firn_backfill_to', none) -%}
            {%- do since.update({'from': var('firn_backfill_from', none), 'to': var('firn_backfill_to', none)}) -%}
        {%- else -%}
            {%- set newest -%}
                select dateadd(hour, -{{ var('firn_lookback_hours', 6) | int }}, max(held.pushed_at)) as bound
                from {{ this }} as held
            {%- endset -%}
            {%- set bound = run_query(newest).columns[0].values()[0] -%}
            {%- do since.update({'from': bound | string if bound else none}) -%}
        {%- endif -%}
    {%- endif -%}
    {{ return(since) }}
{%- endmacro %}

{# Rows of the table that a run may meet, as `held`: those at or above its lower bound. #}
{% macro firn_held(since, key) -%}
{%- if is_incremental() -%}
left join (
    select
        {% for column in key %}rows_held.{{ column }}, {% endfor %}rows_held.pushed_at
    from {{ this }} as rows_held
    where {{ firn_in_range('rows_held', since['from'], none) }}
) as held
    on
        {% for column in key %}events.{{ column }} = held.{{ column }}{{ "\n        and " if not loop.last }}{% endfor %}
{%- endif -%}
{%- endmacro %}

{# A predicate: records (`events`) that a run writes. #}
{% macro firn_new_rows(since) -%}
{%- if not is_incremental() -%}
true
{%- else -%}
(
        (
            {{ firn_in_range('events', since['from'], since['to']) }}
            and (held.topic is null or held.pushed_at < events.pushed_at)
        )
        {%- for column in since.added %}
        -- The table lacks this column: rows that have a value for it are written again.
        or (events.{{ column }} is not null and (held.topic is null or held.pushed_at <= events.pushed_at))
        {%- endfor %}
    )
{%- endif -%}
{%- endmacro %}

{# A predicate: rows of an alias that were pushed in a range, and those without a push time. #}
{% macro firn_in_range(rows, first, last) -%}
(
                {{ rows }}.pushed_at is null
                or (
                    {% if first %}{{ rows }}.pushed_at >= '{{ first }}'::timestamp_ntz{% else %}true{% endif %}
                    {%- if last %} and {{ rows }}.pushed_at < '{{ last }}'::timestamp_ntz{% endif %}
                )
            )
{%- endmacro %}

{# The time of this run, UTC, to the second: models downstream read what was written since theirs. #}
{% macro firn_loaded_at() -%}
'{{ (run_started_at | string)[:19] }}'::timestamp_ntz
{%- endmacro %}

{#
  A predicate for hand-written models below a mart: its rows (`events`) that were written since this model last read them.
  The model has a column loaded_at, the newest loaded_at of the rows that it is made of.
#}
{% macro firn_written_since(events) -%}
{%- if execute and is_incremental() -%}
    {%- set newest -%}
        select max(held.loaded_at) as bound from {{ this }} as held
    {%- endset -%}
    {%- set bound = run_query(newest).columns[0].values()[0] -%}
    {%- if bound -%}{{ events }}.loaded_at > '{{ bound }}'::timestamp_ntz{%- else -%}true{%- endif -%}
{%- else -%}
true
{%- endif -%}
{%- endmacro %}

{# Columns of the contract that the table lacks. A column of another type needs --full-refresh: MERGE would cast into it. #}
{% macro firn_added_columns() -%}
    {%- set existing = {} -%}
    {%- for column in adapter.get_columns_in_relation(this) -%}
        {%- do existing.update({column.name | lower: firn_type_family(column.data_type)}) -%}
    {%- endfor -%}
    {%- set added = [] -%}
    {%- for name, column in model.columns.items() -%}
        {%- set family = firn_type_family(column.data_type or '') -%}
        {%- if name | lower not in existing -%}
            {%- do added.append(name) -%}
        {%- elif family and existing[name | lower] != family -%}
            {{ exceptions.raise_compiler_error(
                this ~ '.' ~ name ~ ' is a ' ~ existing[name | lower] ~ ', and the contract says ' ~ column.data_type
                ~ '. Next: dbt build --full-refresh --select ' ~ model.name) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(added) }}
{%- endmacro %}

{# A type without its length: number keeps its scale, which decides what is rounded. #}
{% macro firn_type_family(data_type) -%}
    {%- set name = (data_type | lower).split('(')[0].strip() -%}
    {%- set families = {
        'character varying': 'text', 'varchar': 'text', 'text': 'text', 'string': 'text', 'char': 'text',
        'float': 'float', 'double': 'float', 'real': 'float', 'double precision': 'float',
        'number': 'number', 'numeric': 'number', 'decimal': 'number', 'int': 'number', 'integer': 'number',
        'bigint': 'number', 'timestamp': 'timestamp_ntz', 'datetime': 'timestamp_ntz', 'varbinary': 'binary'
    } -%}
    {%- set family = families.get(name, name) -%}
    {%- if family == 'number' -%}
        {%- set parts = (data_type | lower).rstrip(') ').split('(') -%}
        {%- set scale = parts[1].split(',')[1].strip() if parts | length > 1 and ',' in parts[1] else '0' -%}
        {%- set family = 'number of scale ' ~ scale -%}
    {%- endif -%}
    {{ return(family) }}
{%- endmacro %}
