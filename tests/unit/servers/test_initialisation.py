"""What a fresh data directory must know from the beginning: at its initialisation, and in its template's name."""

from __future__ import annotations

import pytest

from mydyno.model.definition.experiment import Scalar
from mydyno.servers.templates import initial_options, shaping_variables


@pytest.mark.parametrize(
    ("name", "value", "option"),
    [
        ("lower_case_table_names", 1, "--lower_case_table_names=1"),
        ("loose_lower_case_table_names", 1, "--loose_lower_case_table_names=1"),
        ("innodb_page_size", "4k", "--innodb_page_size=4k"),
        ("loose_innodb_page_size", "4k", "--loose_innodb_page_size=4k"),
        ("innodb_data_file_path", "ibdata1:32M;ibdata2:32M:autoextend", None),
        ("innodb_undo_tablespaces", 3, None),
        ("innodb_checksum_algorithm", "strict_crc32", None),
        ("innodb_file_per_table", False, "--innodb_file_per_table=OFF"),
        ("plugin_load_add", "file_key_management", None),
    ],
)
def test_a_variable_of_the_files_is_known_at_the_initialisation(name: str, value: Scalar, option: str | None) -> None:
    assert initial_options({name: value, "max_connections": 200}) == [option or f"--{name}={value}"]
    assert shaping_variables({name.replace("_", "-"): value, "max_connections": 200}) == {name: value}


@pytest.mark.parametrize(
    "name",
    [
        "innodb_stats_persistent_sample_pages", "innodb_stats_method", "use_stat_tables", "analyze_sample_percentage",
        "histogram_size", "innodb_ft_min_token_size", "ft_min_word_len", "ngram_token_size",
        "sql_generate_invisible_primary_key", "character_set_collations",
    ],
)  # fmt: skip
def test_variables_that_act_when_data_are_made_have_data_of_their_own(name: str) -> None:
    assert [shaping_variables({name: value, "innodb_stats_on_metadata": 1}) for value in (1, 2)] == [
        {name: 1}, {name: 2},
    ]  # fmt: skip
