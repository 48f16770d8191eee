"""What the tests share.

    project   -> writes configuration: conf, jobs, suites
    lab       -> a project with a lake beside it: sources written by delta-rs, runs, targets read by delta-rs
    session   -> the one Spark session of a process
    command   -> the command line: in this process, or as a process of its own
    shells    -> what an interactive bash, zsh or fish offers after TAB
    processes -> what runs below a process, and its CPU seconds, as /proc has them
    history   -> runs as the runs table and the result JSON tell them, without running anything
    hostile   -> names that must be escaped, and a report that has them everywhere
    listener  -> an HTTP server that notes what it is sent
    pages     -> the commands and outputs of a documentation page
    lineage   -> OpenLineage events, checked against the classes of the standard
    airflow   -> a real Airflow in an environment of its own
    bucket    -> a real server of the S3 protocol on this machine
    cluster   -> a real standalone cluster of Spark on this machine
    world     -> environments for outside systems, kept between tests
    commits   -> the files of a table's commits, and their times
    counts    -> what tests counted, printed once at the end

``tests`` is on pytest's path. Modules of the tests are imported as ``from kit.lab import Lab`` or ``from
differential.trial import Trial``, whatever the directory of the test, and never by ``tests.``.

Expected rows, and the models that compute them, stand beside the tests; nothing here knows any.
"""
