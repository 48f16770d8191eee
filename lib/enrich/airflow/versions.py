"""The names of Airflow that are used here, wherever the installed version has them: 2.11, 3.0 and later."""

from __future__ import annotations

try:
    from airflow.sdk import DAG, Asset, BaseOperator, TaskGroup
except ImportError:  # Airflow 2
    from airflow.datasets import Dataset as Asset
    from airflow.models.baseoperator import BaseOperator
    from airflow.models.dag import DAG
    from airflow.utils.task_group import TaskGroup

try:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
except ImportError:  # before 3.2
    from airflow.exceptions import AirflowException, AirflowFailException, AirflowSkipException

__all__ = [
    "DAG",
    "AirflowException",
    "AirflowFailException",
    "AirflowSkipException",
    "Asset",
    "BaseOperator",
    "TaskGroup",
]
