"""Read the project's files, and compile a job with its tables' schemas into what the engine runs. No JVM, no GX.

Flow: ``yamlfile`` (text -> values with lines) -> ``shape`` (-> ``models``) and ``checks`` (rules within a job) ->
``project`` (rules between jobs, their order) -> ``compile`` (names, joins and types -> ``base.spec``). ``settings``
reads ``conf/``, ``suitefiles`` the suites. ``kinds`` has a module for what files may say of each kind of job and
join; ``expressions`` reads expressions, ``statictypes`` types them.
"""
