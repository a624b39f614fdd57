{# Unix milliseconds in a VARIANT as TIMESTAMP_NTZ in UTC: the same value whatever the session's TIMEZONE is. #}
{% macro unix_ms_to_timestamp(milliseconds) -%}
to_timestamp_ntz(({{ milliseconds }})::number(38, 0), 3)
{%- endmacro %}
