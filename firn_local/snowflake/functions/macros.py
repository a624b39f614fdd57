"""The macros of DuckDB that stand for Snowflake's functions, in the schema `_fs_global._firn`. Made at every start.

A VARIANT, OBJECT or ARRAY is DuckDB's JSON, so JSON null is a value and NULL is not. `CASE typeof(x)` is decided as
DuckDB plans a query and costs nothing as it runs. Which function becomes which macro is in the other modules.
"""

from __future__ import annotations

from sqlglot import Expr, exp

SCHEMA = "_fs_global._firn"

# VARIANT. {n}: a macro of this module.
_SEMI_STRUCTURED = r"""
text(x) AS CASE typeof(x) WHEN 'JSON' THEN to_json(x) ->> '$' ELSE x::VARCHAR END
json_kind(x) AS CASE WHEN json_type(x) = 'VARCHAR' THEN 'VARCHAR' WHEN json_type(x) = 'NULL' THEN 'NULL_VALUE'
  WHEN json_type(x) IN ('OBJECT', 'ARRAY', 'BOOLEAN') THEN json_type(x)
  WHEN regexp_full_match(x::VARCHAR, '-?[0-9]+') THEN 'INTEGER'
  WHEN contains(lower(x::VARCHAR), 'e') THEN 'DOUBLE' WHEN x IS NOT NULL THEN 'DECIMAL' END
type_of(x) AS CASE WHEN x IS NULL THEN NULL ELSE CASE typeof(x) WHEN 'JSON' THEN {n}json_kind(to_json(x))
  WHEN 'TIMESTAMP' THEN 'TIMESTAMP_NTZ' WHEN 'TIMESTAMP WITH TIME ZONE' THEN 'TIMESTAMP_TZ' WHEN 'BLOB' THEN 'BINARY'
  WHEN 'FLOAT' THEN 'DOUBLE' WHEN 'DOUBLE' THEN 'DOUBLE' WHEN 'VARCHAR' THEN 'VARCHAR' WHEN 'BOOLEAN' THEN 'BOOLEAN'
  WHEN 'DATE' THEN 'DATE' WHEN 'TIME' THEN 'TIME'
  ELSE CASE WHEN contains(x::VARCHAR, '.') THEN 'DECIMAL' ELSE 'INTEGER' END END END
field(o, k) AS json_extract(o, '/' || replace(replace(k, '~', '~0'), '/', '~1'))
get_ignore_case(o, k) AS {n}field(o, coalesce(list_filter(json_keys(o), lambda x: x = k)[1],
  list_filter(json_keys(o), lambda x: lower(x) = lower(k))[1]))
object_keys(o) AS CASE WHEN json_type(o) = 'OBJECT' THEN to_json(json_keys(o)) END
pair(k, v) AS to_json(k)::VARCHAR || ':' || to_json(v)::VARCHAR
kept_pair(k, v) AS to_json(k)::VARCHAR || ':' || coalesce(to_json(v)::VARCHAR, 'null')
object_of(keys, vals) AS ('{{' || coalesce(list_aggregate(list_transform(range(1, len(keys) + 1),
  lambda i: to_json(keys[i])::VARCHAR || ':' || coalesce(vals[i]::VARCHAR, 'null')), 'string_agg', ','), '')
  || '}}')::JSON
object_with(o, keys) AS {n}object_of(keys, list_transform(keys, lambda k: {n}field(o, k)))
object_pick(o, keys) AS CASE WHEN json_type(o) = 'OBJECT'
  THEN {n}object_with(o, list_filter(json_keys(o), lambda k: list_contains(keys, k))) END
object_delete(o, keys) AS CASE WHEN json_type(o) = 'OBJECT'
  THEN {n}object_with(o, list_filter(json_keys(o), lambda k: NOT list_contains(keys, k))) END
object_insert(o, k, v, renews) AS CASE WHEN json_type(o) <> 'OBJECT' OR o IS NULL THEN NULL WHEN k IS NULL THEN o::JSON
  WHEN list_contains(json_keys(o), k) AND NOT renews THEN error('Duplicate field key ''' || k || '''')
  WHEN v IS NULL THEN {n}object_delete(o, [k])
  ELSE {n}object_of(list_append(list_filter(json_keys(o), lambda x: x <> k), k), list_append(list_transform(
  list_filter(json_keys(o), lambda x: x <> k), lambda x: {n}field(o, x)), to_json(v))) END
"""

# ARRAY: positions count from 0, negative ones from the end.
_ARRAYS = r"""
elements(a) AS CASE WHEN json_type(a) = 'ARRAY' THEN (a::JSON) -> '$[*]' END
value(v) AS coalesce(to_json(v), 'null'::JSON)
strings(a) AS list_transform({n}elements(a), lambda x: x ->> '$')
ranked(l) AS list_transform(l, lambda x: {{'n': CASE WHEN json_type(x) NOT IN ('VARCHAR', 'OBJECT', 'ARRAY')
  THEN TRY_CAST(x ->> '$' AS DOUBLE) END, 's': x ->> '$', 'v': x}})
present(a) AS list_filter({n}elements(a), lambda x: json_type(x) <> 'NULL')
nulls(a) AS list_filter({n}elements(a), lambda x: json_type(x) = 'NULL')
ordered(a, ascends) AS list_transform(CASE WHEN ascends THEN list_sort({n}ranked({n}present(a)), 'ASC', 'NULLS LAST')
  ELSE list_sort({n}ranked({n}present(a)), 'DESC', 'NULLS FIRST') END, lambda e: e.v)
array_sort(a, ascends, nulls_first) AS to_json(CASE WHEN nulls_first
  THEN list_concat({n}nulls(a), {n}ordered(a, ascends)) ELSE list_concat({n}ordered(a, ascends), {n}nulls(a)) END)
array_max(a) AS {n}ordered(a, false)[1]
array_min(a) AS {n}ordered(a, true)[1]
array_append(a, v) AS CASE WHEN a IS NOT NULL THEN to_json(list_append({n}elements(a), {n}value(v))) END
array_prepend(a, v) AS CASE WHEN a IS NOT NULL THEN to_json(list_prepend({n}value(v), {n}elements(a))) END
array_cat(a, b) AS CASE WHEN a IS NOT NULL AND b IS NOT NULL
  THEN to_json(list_concat({n}elements(a), {n}elements(b))) END
array_compact(a) AS to_json({n}present(a))
array_contains(a, v) AS list_contains({n}elements(a), to_json(v))
array_position(a, v) AS nullif(list_position({n}elements(a), to_json(v)), 0) - 1
firsts(l) AS list_filter(l, lambda x, i: list_position(l, x) = i)
array_distinct(a) AS to_json({n}firsts({n}elements(a)))
times(l, x) AS len(list_filter(l, lambda y: y = x))
array_except(a, b) AS to_json(list_filter({n}elements(a),
  lambda x, i: {n}times({n}elements(a)[1:i], x) > {n}times({n}elements(b), x)))
array_intersection(a, b) AS to_json(list_filter({n}elements(a),
  lambda x, i: {n}times({n}elements(a)[1:i], x) <= {n}times({n}elements(b), x)))
plain(x) AS CASE WHEN x = floor(x) THEN to_json(x::HUGEINT) ELSE to_json(x) END
arrays_overlap(a, b) AS len(list_filter({n}elements(a), lambda x: list_contains({n}elements(b), x))) > 0
at(a, p) AS CASE WHEN p < 0 THEN len({n}elements(a)) + p ELSE p END
array_insert(a, p, v) AS to_json(list_concat(list_append(
  list_resize({n}elements(a), {n}at(a, p)::BIGINT, 'null'::JSON), {n}value(v)),
  {n}elements(a)[{n}at(a, p) + 1:]))
array_remove(a, v) AS CASE WHEN v IS NOT NULL THEN to_json(list_filter({n}elements(a), lambda x: x <> to_json(v))) END
array_remove_at(a, p) AS to_json(list_filter({n}elements(a), lambda x, i: i - 1 <> {n}at(a, p)))
array_slice(a, f, t) AS to_json({n}elements(a)[greatest({n}at(a, f), 0) + 1:{n}at(a, t)])
array_reverse(a) AS to_json(list_reverse({n}elements(a)))
array_to_string(a, s) AS CASE WHEN a IS NOT NULL AND s IS NOT NULL THEN coalesce(list_aggregate(list_transform(
  {n}strings(a), lambda x: coalesce(x, '')), 'string_agg', s), '') END
array_flatten(a) AS to_json(flatten(list_transform({n}elements(a), lambda x: {n}elements(x))))
array_of(x) AS CASE typeof(x) WHEN 'JSON' THEN CASE WHEN json_type(to_json(x)) = 'ARRAY' THEN to_json(x)
  WHEN json_type(to_json(x)) <> 'NULL' THEN to_json([to_json(x)]) END
  ELSE CASE WHEN x IS NOT NULL THEN to_json([to_json(x)]) END END
"""

# Numbers, dates and times of texts and numbers.
_CONVERSIONS = r"""
clock(x) AS regexp_replace(x, '(:[0-9]{{2}}(?:\.[0-9]+)?) ?(?:Z|[+-][0-9]{{2}}:?(?:[0-9]{{2}})?)$', '\1')
of_number(x, s) AS make_timestamp(CASE WHEN s <= 6 THEN floor(x * (10 ** (6 - s))::BIGINT)::BIGINT
  ELSE (x::HUGEINT // (10 ** (s - 6))::BIGINT)::BIGINT END)
of_digits(x) AS CASE WHEN abs(x) < 31536000000 THEN make_timestamp(x * 1000000) WHEN abs(x) < 31536000000000
  THEN make_timestamp(x * 1000) WHEN abs(x) < 31536000000000000 THEN make_timestamp(x)
  ELSE make_timestamp(x // 1000) END
try_moment(x) AS CASE WHEN regexp_full_match(x, '\s*-?[0-9]+\s*') THEN {n}of_digits(TRY_CAST(x AS BIGINT))
  ELSE coalesce(TRY_CAST(x AS TIMESTAMP), try_strptime(x, ['%d-%b-%Y %H:%M:%S', '%d-%b-%Y', '%m/%d/%Y %H:%M:%S',
  '%m/%d/%Y', '%a, %d %b %Y %H:%M:%S', '%a %b %d %H:%M:%S +0000 %Y'])) END
moment(x) AS coalesce({n}try_moment(x), x::TIMESTAMP)
try_zoned(x) AS CASE WHEN regexp_full_match(x, '\s*-?[0-9]+\s*') THEN {n}try_moment(x)::TIMESTAMPTZ
  ELSE coalesce(TRY_CAST(regexp_replace(x, '([0-9]) ([+-][0-9]{{2}}:?(?:[0-9]{{2}})?|Z)$', '\1\2') AS TIMESTAMPTZ),
  {n}try_moment(x)::TIMESTAMPTZ) END
zoned(x) AS coalesce({n}try_zoned(x), x::TIMESTAMPTZ)
is_text(x) AS typeof(x) IN ('VARCHAR', 'JSON')
is_number(x) AS regexp_full_match(typeof(x), 'DECIMAL.*|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|DOUBLE|FLOAT')
to_moment(x) AS CASE WHEN {n}is_text(x) THEN {n}moment({n}clock({n}text(x)))
  WHEN {n}is_number(x) THEN {n}of_number(TRY_CAST({n}text(x) AS DECIMAL(38, 9)), 0) ELSE x::TIMESTAMP END
try_to_moment(x) AS CASE WHEN {n}is_text(x) THEN {n}try_moment({n}clock({n}text(x))) ELSE TRY_CAST(x AS TIMESTAMP) END
to_zoned(x) AS CASE WHEN {n}is_text(x) THEN {n}zoned({n}text(x))
  WHEN {n}is_number(x) THEN {n}of_number(TRY_CAST({n}text(x) AS DECIMAL(38, 9)), 0)::TIMESTAMPTZ
  ELSE x::TIMESTAMPTZ END
try_to_zoned(x) AS CASE WHEN {n}is_text(x) THEN {n}try_zoned({n}text(x)) ELSE TRY_CAST(x AS TIMESTAMPTZ) END
to_day(x) AS CASE WHEN {n}is_text(x) THEN {n}moment({n}clock({n}text(x)))::DATE ELSE x::DATE END
try_to_day(x) AS CASE WHEN {n}is_text(x) THEN {n}try_moment({n}clock({n}text(x)))::DATE ELSE TRY_CAST(x AS DATE) END
rounded(x) AS CASE WHEN typeof(x) = 'JSON' THEN (to_json(x) ->> '$')::HUGEINT WHEN typeof(x) IN ('DOUBLE', 'FLOAT')
  THEN round((to_json(x) ->> '$')::DOUBLE)::HUGEINT ELSE x::HUGEINT END
within(x) AS CASE WHEN x >= 100000000000000000000000000000000000000 OR x <= -100000000000000000000000000000000000000
  THEN error('Number out of representable range: ' || x) ELSE x END
required(x, name) AS CASE WHEN x IS NULL THEN error('NULL result in a non-nullable column: ' || name) ELSE x END
divisor(x) AS CASE WHEN x = 0 THEN error('Division by zero') ELSE x END
plus(x DATE, i) AS (x + i)::DATE, (x TIMESTAMP, i) AS x + i, (x TIMESTAMPTZ, i) AS x + i,
  (x VARCHAR, i) AS {n}moment(x) + i
truncated(x DATE, u) AS date_trunc(u, x)::DATE, (x TIMESTAMP, u) AS date_trunc(u, x), (x TIMESTAMPTZ, u) AS
  date_trunc(u, x), (x VARCHAR, u) AS date_trunc(u, {n}moment(x))
"""

# HASH: numbers that are equal have the same hash, whatever their type.
_HASHES = r"""
hashed(x) AS hash(CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') OR typeof(x) LIKE 'DECIMAL%' OR typeof(x) LIKE '%INT%'
  THEN 'n' || CASE WHEN contains(x::VARCHAR, '.') AND NOT contains(x::VARCHAR, 'e')
  THEN rtrim(rtrim(x::VARCHAR, '0'), '.') ELSE x::VARCHAR END ELSE 's' || x::VARCHAR END)
signed(h) AS (h::HUGEINT - 9223372036854775808::HUGEINT)::BIGINT
"""

# FLATTEN: (key, index, path, value, this) of each element; `root` is the path of the flattened value itself.
_STEP = r"""regexp_replace(regexp_replace(e.fullkey, '^\$', root), '\."((?:[^"\\]|\\.)*)"', '[''\1'']', 'g')"""
_PATH = rf"CASE WHEN root = '' THEN ltrim({_STEP}, '.') ELSE {_STEP} END"
_FLATTENED = rf"""
  SELECT input_row AS seq, CASE WHEN e.fullkey NOT LIKE '%]' THEN e.key END AS key, {_PATH} AS path,
  CASE WHEN e.fullkey LIKE '%]' THEN e.key::BIGINT END AS index, e.value AS value,
  {{this}} AS this FROM {{source}}(i) e WHERE i IS NOT NULL AND {{where}}
  UNION ALL SELECT input_row, NULL, root, NULL, NULL, i WHERE is_outer AND (i IS NULL
  OR NOT (json_type(i) IN ('OBJECT', 'ARRAY') AND mode IN ('BOTH', json_type(i)))
  OR coalesce(len(json_keys(i)), 0) + coalesce(json_array_length(i), 0) = 0)
"""  # noqa: S608  (our own text)
_KINDS = r"regexp_replace(e.fullkey, '\"(?:[^\"\\]|\\.)*\"', '_', 'g')"
_TABLES = {
    "flatten_each(i, root, is_outer, mode, input_row)": _FLATTENED.format(
        source="json_each", this="i", where="mode IN ('BOTH', json_type(i)) AND json_type(i) IN ('OBJECT', 'ARRAY')"
    ),
    "flatten_all(i, root, is_outer, mode, input_row)": _FLATTENED.format(
        source="json_tree",
        this="json_extract(i, e.path)",
        where=f"e.parent IS NOT NULL AND (mode = 'BOTH' OR CASE mode WHEN 'OBJECT' THEN NOT contains({_KINDS}, '[') "
        rf"ELSE regexp_full_match(e.fullkey, '\$(\[[0-9]+\])*') END)",
    ),
}


def creation_sql() -> str:
    """The statements that make all macros."""
    made = [f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"]
    for text in (_SEMI_STRUCTURED, _ARRAYS, _CONVERSIONS, _HASHES):
        flat = text.format(n=f"{SCHEMA}.").strip().replace("\n  ", " ")
        made += [f"CREATE OR REPLACE MACRO {SCHEMA}.{each}" for each in flat.splitlines()]
    made += [f"CREATE OR REPLACE MACRO {SCHEMA}.{head} AS TABLE {body}" for head, body in _TABLES.items()]
    return ";\n".join(made)


def call(name: str, *arguments: Expr) -> exp.Anonymous:
    """A call of one of these macros."""
    return exp.Anonymous(this=f"{SCHEMA}.{name}", expressions=list(arguments))


def is_call(node: Expr, names: frozenset[str]) -> bool:
    """Whether it is a call of one of the macros of these names."""
    return isinstance(node, exp.Anonymous) and node.name.removeprefix(f"{SCHEMA}.") in names
