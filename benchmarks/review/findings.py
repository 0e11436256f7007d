"""The 30 findings of five newcomers, by harm, and what holds each now: a test (its node id), a task (its number), or an argument."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """`tests`: node ids under tests/. `tasks`: numbers of `tasks.TASKS`. `argued`: why it stays."""

    number: int
    what: str
    tests: tuple[str, ...] = ()
    tasks: tuple[int, ...] = ()
    argued: str = ""


FINDINGS = (
    Finding(1, "the ratio of ab does not agree with the A and B beside it", ("core/trials/test_ab.py::test_a_row_of_ab_has_both_medians_and_the_change_of_pairs",), (25,)),
    Finding(2, "ab and judge have two gates and two rules", ("core/trials/test_ab.py::test_slower_needs_the_whole_interval_beyond_the_threshold", "core/analysis/test_gates.py::test_a_verdict_follows_from_the_whole_interval"), (24, 25)),
    Finding(3, "a fleet of imported data cannot be judged", ("core/store/test_store_readers.py::test_machines_labels_and_failures_come_along",), (19,)),
    Finding(4, "an odd round hides the whole result", ("core/store/test_store_fold.py::test_disturbed_rounds_are_left_out_where_three_good_ones_are_there", "core/show/test_report_text.py::test_an_invalid_number_is_shown_and_marked"), (1, 2)),
    Finding(5, "the rule of clocks is applied to the wall time of programs", ("core/store/test_store_fold.py::test_a_clock_that_varies_is_a_notice_with_its_range",), (24,)),
    Finding(6, "the compare line that ab prints does not work", ("core/trials/test_ab.py::test_compare_says_what_ab_said",), (25,)),
    Finding(7, "the report of several devices is the report of one, repeated", (), (11,)),
    Finding(8, "a run's own best is called its limit", ("core/show/test_report_text.py::test_a_runs_own_best_is_no_limit", "core/show/test_report_conclusions.py::test_a_ceiling_of_the_run_is_never_called_the_limit_of_the_hardware"), (3,)),
    Finding(9, "a budget that is too short is not said", ("cli/test_looking.py::test_a_budget_that_is_too_short_is_said_before_measuring",)),
    Finding(10, "nothing looks at the machine before measuring", ("cli/test_looking.py::test_a_busy_machine_is_said_before_the_run_and_the_look_is_kept",), (2,)),
    Finding(11, "intervals of ± 1898 %", ("core/show/test_report_text.py::test_an_interval_wider_than_its_value_is_shown_by_its_ends",), (1, 2)),
    Finding(12, "no tool that people come from can be imported", ("core/store/test_store_readers.py::test_a_file_is_recognised_and_its_samples_are_kept_by_process",), (23,)),
    Finding(13, "a baseline cannot live in the repository", ("cli/test_gate_files.py::test_a_file_is_told_by_its_content",), (24,)),
    Finding(14, "arguments are checked after measuring", ("cli/test_gate_files.py::test_every_argument_is_checked_before_measuring",), (24,)),
    Finding(15, "a row per case and device", (), (5, 6)),
    Finding(16, "200 simulated GPUs take hours, and are of one host", ("core/measure/test_simulated_nodes.py::test_each_node_is_a_run_and_the_first_is_as_if_alone",), (20,)),
    Finding(17, "seven of ten configurations of Hugging Face are refused", (), (16,)),
    Finding(18, "a vision tower is left out in silence", (), (16,)),
    Finding(19, "advice of fusing for micro-benchmarks", ("core/show/test_report_notices.py::test_no_advice_for_what_measures_the_machine_itself",)),
    Finding(20, "a share of the limit fails all good cards", (), (8,)),
    Finding(21, "--beside makes a plan that cannot run", ("kernels/test_heading.py::test_the_library_beside_a_kernel_of_another_target_is_a_plan_of_its_own", "kernels/test_heading.py::test_what_was_not_run_is_not_counted_as_wrong"), (15,)),
    Finding(22, "the order of options matters", ("cli/test_cli.py::test_options_and_arguments_come_in_any_order",), (13, 19)),
    Finding(23, "`plan perf.toml` is refused", ("cli/test_cli.py::test_a_noun_without_its_verb_takes_the_first",), (27,)),
    Finding(24, "no template for a kernel's header, no remedy without Triton", ("kernels/test_heading.py::test_a_module_that_is_missing_comes_with_its_remedy",), (13, 14)),
    Finding(25, "imported data get advice about how to run", ("core/store/test_store_imported.py::test_what_was_brought_in_gets_no_advice_about_how_to_run",), (21,)),
    Finding(26, "a zipped run is refused by import", ("core/store/test_store_readers.py::test_a_mailed_run_is_taken_in_and_never_in_place_of_another",), (26,)),
    Finding(27, "JSON is for archives, not for scripts", (), (1, 20)),
    Finding(28, "a title about a device where there is none; a pause that nobody announced", ("traces/test_advise_trace.py::test_what_the_host_waits_for_is_not_titled_by_a_device",), (17,)),
    Finding(29, "`devices` buries one line under 45", ("core/show/test_report_text.py::test_devices",), (27,)),
    Finding(30, "names that people try have no answer", ("cli/test_cli.py::test_names_of_other_tools_are_answered_with_the_right_command",), (27,)),
)
