{# Fails with each combination of `columns` that occurs more than once. #}
{% test unique_rows(model, columns) %}
select
    {% for column in columns %}rows_tested.{{ column }}, {% endfor %}
    count(*) as occurrences
from {{ model }} as rows_tested
group by {% for column in columns %}rows_tested.{{ column }}{{ ", " if not loop.last }}{% endfor %}
having count(*) > 1
{% endtest %}
