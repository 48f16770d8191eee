"""What a job file can have wrong: each case edits lines of a right file and names every fault that must come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from enrich.project.project import load_project
from kit.project import write_project
from unit.config.small_project import CONF, HISTORY, JOIN, MIRROR, Edits, edited, faults_of

Expected = tuple[int | None, str]
"""The line and words of a message; None: the fault has no line."""

J = "orders"
SOURCES = "  orders: {table: orders_raw, key: order_id}"
TWO_KEYS = "  customers: {table: customers, key: [customer_id, region]}"

JOIN_CASES: list[tuple[Edits, Sequence[Expected]]] = [
    # --- keys of the file -----------------------------------------------------------------------------------------
    ({5: "form: orders"}, [(1, "'from' is missing"), (5, "unknown key 'form'; did you mean 'from'?")]),
    ({5: "from_: orders"}, [(1, "'from' is missing"), (5, "unknown key 'from_'; did you mean 'from'?")]),
    ({5: "from: orders\nexpectation: x"}, [(6, "unknown key 'expectation'; did you mean 'expectations'?")]),
    ({5: "from: orders\nFrom: orders"}, [(6, "unknown key 'From'; did you mean 'from'?")]),
    ({5: "from: orders\non: x"}, [(6, "unknown key 'on'; it belongs in 'join.<alias>'")]),
    ({5: "from: orders\ncluster_by: x"}, [(6, "unknown key 'cluster_by'; it belongs in 'target'")]),
    ({5: "from: orders\n<<: {a: b}"}, [(6, "unknown key '<<'")]),
    ({5: "from: orders\nschedule: daily"}, [(6, "unknown key 'schedule'; it can be job, kind")]),
    ({3: SOURCES.replace("key:", "keys:")}, [(3, "'key' is missing in 'sources.orders'"), (3, "unknown key 'keys'")]),
    ({3: SOURCES.replace("}", ", alias: x}")}, [(3, "unknown key 'alias'; it can be table, key, unique")]),
    ({7: "  customers: {kind: foreign_key, on: a.b, hwo: left}"}, [(7, "unknown key 'hwo'; did you mean 'how'?")]),
    ({7: "  customers: {kind: foreign_key, on: a.b, select: x}"}, [(7, "it belongs in 'the file itself'")]),
    (
        {11: "target: {table: orders_wide, clusterby: [a]}"},
        [(11, "unknown key 'clusterby'; did you mean 'cluster_by'?")],
    ),
    ({11: "target: {tabel: orders_wide}"}, [(11, "'table' is missing in 'target'"), (11, "did you mean 'table'?")]),
    # --- missing, empty, of the wrong type ------------------------------------------------------------------------
    ({1: None}, [(1, "'job' is missing")]),
    ({2: None, 3: None, 4: None}, [(1, "'sources' is missing")]),
    ({11: None}, [(1, "'target' is missing")]),
    ({3: "  orders: {key: order_id}"}, [(3, "'table' is missing in 'sources.orders'")]),
    ({7: "  customers: {on: orders.customer_id}"}, [(7, "'kind' is missing in 'join.customers'")]),
    ({5: "from:"}, [(5, "'from' has no value")]),
    ({5: "from: ~"}, [(5, "'from' has no value")]),
    ({5: "from: ''"}, [(5, "'from' is empty")]),
    ({5: "from: orders\nwhere:"}, [(6, "'where' has no value")]),
    ({5: "from: orders\nwhere: ' '"}, [(6, "'where' is empty")]),
    ({5: "from: orders\nwhere: [a]"}, [(6, "'where' must be text, not a list")]),
    ({5: "from: orders\nexpectations: null"}, [(6, "'expectations' has no value")]),
    ({10: "  customer:"}, [(10, "'select.customer' has no value; give one or leave it out")]),
    (
        {8: "select: {order_id: orders.order_id, n: coalesce(customers.a, customers.b)}", 9: None, 10: None},
        [
            (8, "'select.customers.b)' has no value; put an expression with a comma into quotes"),
            (8, "the target column 'customers.b)' must not contain ')'"),
        ],
    ),
    ({10: "  customer: ''"}, [(10, "'select.customer' is empty")]),
    ({10: "  customer: {a: b}"}, [(10, "'select.customer' must be text, not a mapping")]),
    ({8: "select: {}", 9: None, 10: None}, [(8, "'select' is empty")]),
    ({8: "select: [order_id]", 9: None, 10: None}, [(8, "'select' must be a mapping of keys and values, not a list")]),
    ({8: "select: '*'", 9: None, 10: None}, [(8, "'select' must be a mapping of keys and values, not text")]),
    ({2: "sources: {}", 3: None, 4: None}, [(2, "'sources' is empty")]),
    ({2: "sources: [a, b]", 3: None, 4: None}, [(2, "'sources' must be a mapping of keys and values, not a list")]),
    (
        {3: "  orders: orders_raw"},
        [(3, "'orders_raw' is not a table of tables.yml; write it there, or {table: orders_raw, key")],
    ),
    (
        {3: "  orders: {table: 2026, key: a}"},
        [(3, "'sources.orders.table' must be text, not a number; put it in quotes")],
    ),
    ({3: "  orders: {table: [t], key: a}"}, [(3, "'sources.orders.table' must be text, not a list")]),
    ({7: "  customers: foreign_key"}, [(7, "'join.customers' must be a mapping of keys and values, not text")]),
    ({6: "join: [customers]", 7: None}, [(4, "neither 'from' nor joined"), (6, "'join' must be a mapping")]),
    ({6: "join:", 7: None}, [(4, "neither 'from' nor joined"), (6, "'join' has no value")]),
    ({11: "target: orders_wide"}, [(11, "'target' must be a mapping of keys and values, not text")]),
    ({11: "target: {table: t, change_feed: yes}"}, [(11, "'target.change_feed' must be true or false, not text")]),
    ({11: "target: {table: t, change_feed: 1}"}, [(11, "'target.change_feed' must be true or false, not a number")]),
    ({1: "job: 5"}, [(1, "'job' must be text, not a number; put it in quotes")]),
    # --- normalisers ----------------------------------------------------------------------------------------------
    ({3: SOURCES.replace("}", ", normalise: []}")}, [(3, "'normalise' is an empty list")]),
    ({3: SOURCES.replace("}", ", normalise: [trim, trim]}")}, [(3, "'normalise' names 'trim' twice")]),
    (
        {3: SOURCES.replace("}", ", normalise: [lowr]}")},
        [(3, "'sources.orders.normalise' (item 1) is 'lowr', but must be one of trim, lower")],
    ),
    ({3: SOURCES.replace("}", ", normalise: [1]}")}, [(3, "must be one of trim, lower")]),
    ({3: SOURCES.replace("}", ", normalise: {a: b}}")}, [(3, "'sources.orders.normalise' must be a")]),
    ({3: SOURCES.replace("}", ", normalize: trim}")}, [(3, "unknown key 'normalize'; did you mean 'normalise'?")]),
    # --- values of a fixed set ------------------------------------------------------------------------------------
    (
        {1: "job: orders\nkind: joins"},
        [(2, "'kind' is 'joins', but must be one of join, mirror, history, group; did you mean 'join'?")],
    ),
    (
        {7: "  customers: {kind: foreign, on: a.b}"},
        [(7, "must be one of table, foreign_key, as_of, list, interval; did you mean 'foreign_key'?")],
    ),
    (
        {7: "  customers: {kind: zzz, on: a.b}"},
        [(7, "'join.customers.kind' is 'zzz', but must be one of table, foreign_key, as_of, list")],
    ),
    ({7: "  customers: {kind: 1, on: a.b}"}, [(7, "'join.customers.kind' is a number, but must be one of")]),
    ({7: "  customers: {kind: foreign_key, on: a.b, how: outer}"}, [(7, "one of inner, left, right, full")]),
    (
        {7: "  customers: {kind: foreign_key, on: a.b, how: LEFT}"},
        [(7, "'LEFT', but must be one of inner, left, right, full; did you mean 'left'?")],
    ),
    ({3: SOURCES.replace("}", ", unique: check}")}, [(3, "one of checked, trusted; did you mean 'checked'?")]),
    (
        {7: "  customers: {kind: list, elements: a.b, duplicates: dorp}"},
        [(7, "one of keep, drop; did you mean 'drop'?")],
    ),
    (
        {7: "  customers: {kind: list, elements: a.b, unmatched: true}"},
        [(7, "is true or false, but must be one of keep, drop")],
    ),
    # --- the job's name -------------------------------------------------------------------------------------------
    ({1: "job: order"}, [(1, "job 'order' is in orders.yml; rename the file to order.yml or the job to orders")]),
    ({1: "job: Orders"}, [(1, "job 'Orders' is in orders.yml")]),
    ({1: "job: a/b"}, [(1, "'a/b' may contain letters, digits")]),
    ({1: "job: ../orders"}, [(1, "may contain letters, digits")]),
    ({1: "job: -x"}, [(1, "may contain letters, digits")]),
    ({1: 'job: "a\\nb"'}, [(1, "contains a control character or a line break"), (1, "may contain letters, digits")]),
    # --- aliases --------------------------------------------------------------------------------------------------
    (
        {5: "from: order"},
        [
            (3, "'orders' is neither 'from' nor joined"),
            (5, "'order', which is not among the sources; did you mean 'orders'?"),
        ],
    ),
    ({5: "from: zzz"}, [(3, "'orders' is neither"), (5, "not among the sources; it can be orders, customers")]),
    (
        {7: "  custmers: {kind: foreign_key, on: a.b}"},
        [
            (4, "'customers' is neither 'from' nor joined"),
            (7, "'custmers', which is not among the sources; did you mean 'customers'?"),
        ],
    ),
    (
        {7: "  orders: {kind: foreign_key, on: a.b}"},
        [(4, "'customers' is neither"), (7, "the driving source 'orders' cannot be joined to itself")],
    ),
    ({6: None, 7: None}, [(4, "the source 'customers' is neither 'from' nor joined; join it or remove it")]),
    ({4: "  customers: {table: c, key: k}\n  more: {table: m, key: k}"}, [(5, "the source 'more' is neither")]),
    ({4: "  key: {table: c, key: k}", 7: "  key: {kind: table}"}, [(4, "the alias 'key' is reserved")]),
    ({4: "  KEY: {table: c, key: k}", 7: "  KEY: {kind: table}"}, [(4, "the alias 'key' is reserved")]),
    ({4: "  _c: {table: c, key: k}", 7: "  _c: {kind: table}"}, [(4, "the alias '_c' is reserved")]),
    ({4: "  a-b: {table: c, key: k}", 7: "  a-b: {kind: table}"}, [(4, "the alias 'a-b' must be an identifier")]),
    ({4: "  a b: {table: c, key: k}", 7: "  a b: {kind: table}"}, [(4, "the alias 'a b' must be an identifier")]),
    ({4: "  a.b: {table: c, key: k}", 7: "  a.b: {kind: table}"}, [(4, "the alias 'a.b' must be an identifier")]),
    ({4: "  1a: {table: c, key: k}", 7: "  1a: {kind: table}"}, [(4, "the alias '1a' must be an identifier")]),
    ({4: "  ünder: {table: c, key: k}", 7: "  ünder: {kind: table}"}, [(4, "must be an identifier")]),
    ({4: "  '': {table: c, key: k}", 7: "  '': {kind: table}"}, [(4, "a name is empty"), (7, "a name is empty")]),
    (
        {4: "  Orders: {table: c, key: k}", 7: "  Orders: {kind: table}"},
        [(4, "'orders' and 'Orders' differ only in upper and lower case")],
    ),
    # --- key lists ------------------------------------------------------------------------------------------------
    ({3: "  orders: {table: t, key: []}"}, [(3, "'key' is an empty list")]),
    ({3: "  orders: {table: t, key: ''}"}, [(3, "'sources.orders.key' is empty")]),
    ({3: "  orders: {table: t, key: ['']}"}, [(3, "'sources.orders.key' (item 1) is empty")]),
    ({3: "  orders: {table: t, key: [a, ~]}"}, [(3, "'sources.orders.key' (item 2) has no value")]),
    (
        {3: "  orders: {table: t, key: 7}"},
        [(3, "'sources.orders.key' (item 1) must be text, not a number; put it in quotes")],
    ),
    (
        {3: "  orders: {table: t, key: {a: b}}"},
        [(3, "'sources.orders.key' must be a name or a list of names, not a mapping")],
    ),
    ({3: "  orders: {table: t, key: [[a]]}"}, [(3, "(item 1) must be text, not a list")]),
    ({3: "  orders:\n    table: t\n    key:\n    - a\n    - a"}, [(7, "'key' names the column 'a' twice")]),
    ({3: "  orders: {table: t, key: [a, A]}"}, [(3, "'key' names the column 'A' twice")]),
    ({3: '  orders: {table: t, key: "a\\u0007b"}'}, [(3, "contains a control character")]),
    # --- joins ----------------------------------------------------------------------------------------------------
    ({7: "  customers: {kind: foreign_key}"}, [(7, "kind foreign_key needs 'on'")]),
    ({7: "  customers: {kind: foreign_key, on: []}"}, [(7, "'on' is an empty list")]),
    ({7: "  customers: {kind: foreign_key, on: ''}"}, [(7, "'join.customers.on' is empty")]),
    (
        {7: "  customers: {kind: foreign_key, on: [a.b, ~]}"},
        [(7, "(item 2) has no value"), (7, "'on' has 2 expressions, but the key of 'customers' has 1")],
    ),
    (
        {7: "  customers: {kind: foreign_key, on: {a: b}}"},
        [(7, "'join.customers.on' must be a name or a list of names")],
    ),
    (
        {7: "  customers: {kind: foreign_key, on: [o.a, o.b]}"},
        [(7, "'on' has 2 expressions, but the key of 'customers' has 1")],
    ),
    ({4: TWO_KEYS}, [(7, "'on' has 1 expression, but the key of 'customers' has 2")]),
    ({4: TWO_KEYS, 7: "  customers:\n    kind: foreign_key\n    on: [a.b, a.c, a.d]"}, [(9, "'on' has 3 expressions")]),
    (
        {7: "  customers: {kind: foreign_key, on: a.b, elements: a.c}"},
        [(7, "'elements' is not for kind foreign_key, only for list")],
    ),
    (
        {7: "  customers: {kind: foreign_key, on: a.b, duplicates: keep}"},
        [(7, "'duplicates' is not for kind foreign_key")],
    ),
    ({7: "  customers: {kind: table, on: a.b}"}, [(7, "'on' is not for kind table, only for foreign_key")]),
    ({7: "  customers: {kind: table, element_key: a}"}, [(7, "'element_key' is not for kind table, only for list")]),
    ({7: "  customers: {kind: table, unmatched: drop}"}, [(7, "'unmatched' is not for kind table, only for list")]),
    (
        {4: TWO_KEYS, 7: "  customers: {kind: table}"},
        [(7, "that of 'customers' has 2 columns and that of 'orders' 1")],
    ),
    ({7: "  customers: {kind: list}"}, [(7, "kind list needs 'elements'")]),
    ({7: "  customers: {kind: list, elements: [a.b]}"}, [(7, "'join.customers.elements' must be text, not a list")]),
    (
        {7: "  customers: {kind: list, elements: a.b, how: left}"},
        [(7, "'how' is not for kind list, only for table, foreign_key, as_of and interval")],
    ),
    (
        {7: "  customers: {kind: list, elements: a.b, on: a.c}"},
        [(7, "'on' is not for kind list, only for foreign_key")],
    ),
    (
        {7: "  customers: {kind: list, elements: a.b, element_key: [x]}"},
        [(7, "'join.customers.element_key' must be text")],
    ),
    (
        {4: TWO_KEYS, 7: "  customers: {kind: list, elements: a.b}"},
        [(7, "a list join uses one id, but the key of 'customers' has 2 columns")],
    ),
    (
        {
            4: "  customers: {table: c, key: k}\n  b: {table: b, key: k}",
            7: "  customers: {kind: foreign_key, on: a.b, how: full}\n  b: {kind: foreign_key, on: a.c, how: right}",
        },
        [(9, "at most one right or full foreign-key join, and has one ('customers', line 8)")],
    ),
    ({5: "from: orders\nmirror: {value: a}"}, [(6, "'mirror' is only for kind: mirror")]),
    # --- the target's columns -------------------------------------------------------------------------------------
    *(
        ({10: f"  'a{bad}b': customers.name"}, [(10, "must not contain")])
        for bad in ("`", " ", ",", ";", "{", "}", "(", ")", "=", "\u00a0")
    ),
    ({10: '  "a\\tb": customers.name'}, [(10, "contains a control character"), (10, "must not contain '\\t'")]),
    ({10: "  '': customers.name"}, [(10, "a name is empty")]),
    ({10: "  Order_ID: customers.name"}, [(10, "'order_id' and 'Order_ID' differ only in upper and lower case")]),
    ({10: "  order_id: customers.name"}, [(10, "duplicate key 'order_id', first on line 9")]),
    ({10: "  _failed: customers.name"}, [(10, "'_failed' is a column of the quarantine")]),
    ({10: "  _Run_ID: customers.name"}, [(10, "'_Run_ID' is a column of the quarantine")]),
    ({10: "  _change_type: customers.name"}, [(10, "'_change_type' is a column of the change feed")]),
    ({10: '  customer: "a\\u0000b"'}, [(10, "'select.customer' contains a control character")]),
    ({11: "target: {table: t, cluster_by: []}"}, [(11, "'cluster_by' is an empty list")]),
    (
        {11: "target: {table: t, cluster_by: [customr]}"},
        [(11, "'customr', which is not selected; did you mean 'customer'?")],
    ),
    (
        {11: "target: {table: t, cluster_by: Customer}"},
        [(11, "'Customer', which is not selected; did you mean 'customer'?")],
    ),
    (
        {11: "target: {table: t, cluster_by: [order_id, order_id]}"},
        [(11, "'cluster_by' names the column 'order_id' twice")],
    ),
    (
        {8: None, 9: None, 10: None, 11: "target: {table: t, cluster_by: [a, b, c, d, e]}"},
        [(8, "'cluster_by' has 5 columns; Delta clusters by at most 4")],
    ),
    # --- table references -----------------------------------------------------------------------------------------
    *(
        ({3: f"  orders: {{table: {reference!r}, key: order_id}}"}, [(3, words)])
        for reference, words in [
            ("../x", "must not contain '..'"),
            ("./a/../../x", "must not contain '..'"),
            ("/a/..", "must not contain '..'"),
            ("s3a://b/../x", "must not contain '..'"),
            (
                "s3://b/x",
                "scheme 's3' is not one that Spark and delta-rs both know (abfs, abfss, file, gs, hdfs, s3a); write s3a://",
            ),
            ("az://c/x", "scheme 'az' is not one that Spark and delta-rs both know"),
            ("http://h/x", "scheme 'http' is not one"),
            ("dbfs:/x", "scheme 'dbfs' is not one"),
            ("memory:///x", "scheme 'memory' is not one"),
            ("s3a:///x", "names its bucket"),
            ("s3a://id:secret@b/x", "must not contain a user and a password"),
            ("file://host/x", "names no host"),
            ("lake/x", "write ./lake/x for a path"),
            ("a.b.c.d", "has 4 parts"),
            ("a..b", "is not a table name"),
            (".a", "is not a table name"),
            ("a b", "is not a table name"),
            ("text.`/etc/passwd`", "write ./text"),
            ("a;drop", "is not a table name"),
            ("${LAKE}", "variables are read in conf files only"),
            ("~x", "is not a table name"),
            ("./a*", "must not contain '*'"),
            ("s3a://b/a*", "must not contain '*'"),
            ("s3a://b/a%20b", "must not contain '%'"),
            ("gs://b/x@v3", "Delta reads that as a version"),
            ("./x@v3", "Delta reads that as a version"),
            ("/", "cannot be the root directory"),
            ("s3a:x", "is not a table name"),
            ("x" * 300, "has 300 bytes, of 255 possible"),
            ("./x/" + "ä" * 128, "has 256 bytes"),
            ("s3a://b/" + "x" * 256, "has 256 bytes"),
            ("main.crm." + "x" * 256, "has 256 bytes"),
        ]
    ),
    *(
        ({11: f"target: {{table: {reference}}}"}, [(11, "has 256 bytes with the '__quarantine' of its quarantine")])
        for reference in ("x" * 244, "/d/" + "x" * 244, "main.crm." + "x" * 244)
    ),
    ({11: "target: {table: ../x}"}, [(11, "must not contain '..'")]),
    (
        {11: "target: {table: orders_raw}"},
        [(3, "the source 'orders_raw' is the job's own target (jobs/orders.yml:11)")],
    ),
    ({11: "target: {table: ./lake/orders_raw/}"}, [(3, "the source 'orders_raw' is the job's own target")]),
    ({3: "  orders: {table: orders_wide__quarantine, key: order_id}"}, [(3, "is the job's own quarantine")]),
    (
        {11: "target: {table: ./lake}"},
        [
            (11, "and the state directory must not be nested"),
            (11, "and the table 'customers' must"),
            (11, "and the table 'mails'"),
            (11, "'orders_raw'"),
            (11, "'people'"),
        ],
    ),
    (
        {11: "target: {table: _enrich}"},
        [(11, "the target '_enrich' and the state directory must not be nested")],
    ),
    (
        {11: "target: {table: ./lake/orders_raw/wide}"},
        [(11, "and the table 'orders_raw' must not be nested")],
    ),
    # --- nothing that a terminal would obey, nothing endless --------------------------------------------------
    (
        {10: '  "a\\u001b[31m": ""'},
        [
            (10, "the name 'a\\x1b[31m' contains"),
            (10, "'select.a\\x1b[31m' is empty"),
            (10, "must not contain '\\x1b'"),
        ],
    ),
    ({5: "from: !%1b[31m x"}, [(5, "tag !\\x1b[31m: tags are not allowed")]),
    (
        {3: f"  orders: {{table: t, key: k, unique: {'x' * 9000}}}"},
        [(3, "xxx...', but must be one of checked, trusted")],
    ),
    ({5: f"from: {'x' * 9000}"}, [(3, "is neither"), (5, "xxx...")]),
    # --- several at once ------------------------------------------------------------------------------------------
    (
        {
            1: "job: order",
            5: "form: orders",
            7: "  custmers: {kind: foreign_kee, hwo: left}",
            10: "  a b: ''",
            11: "target: {tabel: x}",
        },
        [
            (1, "job 'order' is in"),
            (1, "'from' is missing"),
            (5, "did you mean 'from'?"),
            (7, "did you mean 'customers'?"),
            (7, "did you mean 'foreign_key'?"),
            (7, "did you mean 'how'?"),
            (10, "'select.a b' is empty"),
            (10, "must not contain ' '"),
            (11, "'table' is missing"),
            (11, "did you mean 'table'?"),
        ],
    ),
]

MIRROR_CASES: list[tuple[Edits, Sequence[Expected]]] = [
    (
        {2: "kind: mirrors"},
        [(2, "'kind' is 'mirrors', but must be one of join, mirror, history, group; did you mean 'mirror'?")],
    ),
    (
        {8: "  conflict: collect", 9: None, 10: None, 11: "target: {table: mails, cluster_by: [mail, person_id]}"},
        [(9, "'cluster_by' names 'person_id', which is an array")],
    ),
    ({6: None, 7: None, 8: None, 9: None, 10: None}, [(2, "kind mirror needs 'mirror: {value: ...}'")]),
    (
        {6: "mirror: mail", 7: None, 8: None, 9: None, 10: None},
        [(6, "'mirror' must be a mapping of keys and values, not text")],
    ),
    ({7: None}, [(6, "'value' is missing in 'mirror'")]),
    ({7: "  value: []"}, [(7, "'value' is an empty list")]),
    ({7: "  value: [mail, mail]"}, [(7, "'value' names the column 'mail' twice")]),
    ({7: "  vale: mail"}, [(6, "'value' is missing"), (7, "unknown key 'vale'; did you mean 'value'?")]),
    ({8: "  conflict: newest"}, [(8, "'mirror.conflict' is 'newest', but must be one of fail, first, last, collect")]),
    ({8: "  conflict: fail"}, [(9, "'order' is only for conflict first and last, not fail")]),
    ({8: None}, [(8, "'order' is only for conflict first and last, not fail")]),
    ({8: "  conflict: collect"}, [(9, "'order' is only for"), (10, "'columns' is not for conflict collect")]),
    ({8: "  conflict: collect", 9: None}, [(9, "'columns' is not for conflict collect")]),
    ({9: "  order: [a, b]"}, [(9, "'mirror.order' must be text, not a list")]),
    ({10: "  columns: []"}, [(10, "'columns' is an empty list")]),
    ({10: "  columns: [note, note]"}, [(10, "'columns' names the column 'note' twice")]),
    ({10: "  columns: [mail]"}, [(10, "'mail' is twice in the mirror")]),
    (
        {10: "  columns:\n  - note\n  - Person_ID"},
        [(12, "'person_id' and 'Person_ID' differ only in upper and lower case")],
    ),
    ({7: "  value: person_id"}, [(4, "'person_id' is twice in the mirror")]),
    ({7: "  value: e mail"}, [(7, "the target column 'e mail' must not contain ' '")]),
    (
        {4: "  people: {table: people, key: [a, b]}", 7: "  value: Keys", 8: "  conflict: collect", 9: None, 10: None},
        [(4, "'Keys' and 'keys' differ only in upper and lower case")],
    ),
    (
        {5: "from: people\njoin: {people: {kind: table}}"},
        [(6, "'join' is not for kind mirror"), (6, "cannot be joined to itself")],
    ),
    ({5: "from: people\nselect: {a: people.a}"}, [(6, "'select' is not for kind mirror")]),
    ({5: "from: people\nwhere: people.a"}, [(6, "'where' is not for kind mirror")]),
    (
        {4: "  people: {table: people, key: a}\n  more: {table: more, key: b}"},
        [(5, "the source 'more' is neither 'from' nor joined; a mirror reads one source")],
    ),
    (
        {11: "target: {table: mails, cluster_by: [male]}"},
        [(11, "'male', which is not a column of the mirror; did you mean 'mail'?")],
    ),
    ({11: "target: {table: mails, cluster_by: seen_at}"}, [(11, "'seen_at', which is not a column of the mirror")]),
]


HISTORY_CASES: list[tuple[Edits, Sequence[Expected]]] = [
    ({9: "  columns: []"}, [(9, "'columns' is an empty list")]),
    ({9: "  columns: [name, NAME]"}, [(9, "'columns' names the column 'NAME' twice")]),
    ({9: "  columns: [name, Person_id]"}, [(9, "'Person_id', which is in the key: leave it out")]),
    ({9: "  columns: [since]"}, [(9, "'since' is twice in the history; choose another name for the time")]),
    ({9: "  columns: [Since]"}, [(9, "'since' and 'Since' differ only in upper and lower case")]),
    ({7: "  valid_from: person_id", 10: "target: {table: names}"}, [(7, "'person_id' is twice in the history")]),
    ({7: "  valid_from: Until", 10: "target: {table: names}"}, [(6, "'valid_from' and 'valid_to' are both 'Until'")]),
    ({7: "  valid_from: a b", 10: "target: {table: names}"}, [(7, "the target column 'a b' must not contain ' '")]),
    ({7: "  valid_from: [since]", 10: "target: {table: names}"}, [(7, "'history.valid_from' must be text")]),
    ({7: "  valid_form: since"}, [(7, "unknown key 'valid_form'; did you mean 'valid_from'?"), (10, "'since'")]),
    (
        {4: "  people: {table: people, key: person_id, doubled_keys: quarantine}", 8: "  on_delete: erase"},
        [
            (
                8,
                "'on_delete: erase' beside 'doubled_keys: quarantine' would erase a key whose row comes twice",
            )
        ],
    ),
    ({8: "  on_delete: eraze"}, [(8, "'history.on_delete' is 'eraze', but must be one of end, erase; did you mean")]),
    ({8: "  start: begining"}, [(8, "'history.start' is 'begining', but must be one of beginning; did you mean")]),
    ({5: "from: people\nmirror: {value: mail}"}, [(6, "'mirror' is only for kind: mirror")]),
    ({5: "from: people\nselect: {a: people.a}"}, [(6, "'select' is not for kind history")]),
    ({5: "from: people\nwhere: people.a"}, [(6, "'where' is not for kind history")]),
    ({2: "kind: join"}, [(6, "'history' is only for kind: history; add 'kind: history' or remove it")]),
    ({4: "  people: {table: people, key: a}\n  more: {table: more, key: b}"}, [(5, "a history reads one source")]),
    ({10: "target: {table: names, cluster_by: sinse}"}, [(10, "'sinse', which is not a column of the history")]),
    (
        {10: "target: {table: names}\nrules: [{rule: match_rate, join: x, at_least: 0.5}]"},
        [(11, "about joins; a history job can have mass_change")],
    ),
    (
        {10: "target: {table: names}\nrules: [{rule: value_conflicts, at_most: 1}]"},
        [(11, "is about mirrors; a history job can have mass_change")],
    ),
]


def show(edits: object) -> str | None:
    return "; ".join(f"{line}={text}" for line, text in edits.items())[:60] if isinstance(edits, dict) else "_"


def check(base: Path, name: str, expected: list[Expected]) -> None:
    """Assert that exactly the expected faults come, in the order of the lines."""
    found = [(where, message) for where, message in faults_of(base) if where and where.startswith(f"jobs/{name}.yml")]
    lines = [int(where.rpartition(":")[2]) for where, _ in found if where]
    assert lines == sorted(lines)
    assert all(message.isprintable() and len(message) < 510 for _, message in found)
    for line, words in expected:
        assert any(where == f"jobs/{name}.yml:{line}" and words in message for where, message in found), found
    assert len(found) == len([line for line, _ in expected]), found


@pytest.mark.parametrize(("edits", "expected"), JOIN_CASES, ids=show)
def test_faults_of_join_jobs(tmp_path: Path, edits: Edits, expected: list[Expected]) -> None:
    files = {"conf/dev.yml": CONF, "jobs/mails.yml": MIRROR, "jobs/orders.yml": edited(JOIN, edits)}
    check(write_project(tmp_path, files), "orders", expected)


@pytest.mark.parametrize(("edits", "expected"), MIRROR_CASES, ids=show)
def test_faults_of_mirrors(tmp_path: Path, edits: Edits, expected: list[Expected]) -> None:
    files = {"conf/dev.yml": CONF, "jobs/orders.yml": JOIN, "jobs/mails.yml": edited(MIRROR, edits)}
    check(write_project(tmp_path, files), "mails", expected)


@pytest.mark.parametrize(("edits", "expected"), HISTORY_CASES, ids=show)
def test_faults_of_histories(tmp_path: Path, edits: Edits, expected: list[Expected]) -> None:
    files = {"conf/dev.yml": CONF, "jobs/orders.yml": JOIN, "jobs/names.yml": edited(HISTORY, edits)}
    check(write_project(tmp_path, files), "names", expected)


@pytest.mark.parametrize("edits", [{}, {6: None, 7: None, 8: None, 9: None, 10: "target: {table: names}"}], ids=show)
def test_histories_that_are_right(tmp_path: Path, edits: Edits) -> None:
    files = {"conf/dev.yml": CONF, "jobs/names.yml": edited(HISTORY, edits)}
    assert load_project(write_project(tmp_path, files)).jobs["names"].kind == "history"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        ("just text\n", "the file must be a mapping of keys and values, not text"),
        ("- job: orders\n", "the file must be a mapping of keys and values, not a list"),
        ("5\n", "the file must be a mapping of keys and values, not a number"),
        ("job: orders\n---\njob: orders\n", "several documents"),
        ("job: &a orders\n", "anchors are not allowed"),
        ("job: !!str orders\n", "tags are not allowed"),
    ],
)
def test_files_that_are_no_jobs(tmp_path: Path, text: str, words: str) -> None:
    base = write_project(tmp_path, {"conf/dev.yml": CONF, "jobs/orders.yml": text})
    faults = faults_of(base)
    assert len(faults) == 1
    assert str(faults[0][0]).startswith("jobs/orders.yml:")
    assert words in faults[0][1]


def test_there_are_enough_cases() -> None:
    assert len(JOIN_CASES) + len(MIRROR_CASES) > 150
