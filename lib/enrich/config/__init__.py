"""The project's files: models of jobs and settings, ``file:line`` errors, JSON Schemas. Never imports Spark or GX.

Flow: ``yamlfile`` (text -> values with lines) -> ``shape`` (-> ``models``) and ``checks`` (rules within a job) ->
``project`` (rules between jobs, their order). ``settings`` reads ``conf/`` and resolves table references,
``suitefiles`` reads expectation suites.
"""
