"""The text of perf script as folded stacks."""

from __future__ import annotations

from mydyno.hosts.tracing.perf import CUT_OFF, fold, frame_name

SCRIPT = """\
  1342 25315.799006: 
\tffffffff813a4413 finish_task_switch.isra.0 ([kernel.kallsyms])
\tffffffff821faa94 __schedule ([kernel.kallsyms])
\t          f1dacd JOIN::exec_inner(bool) (/opt/my server/bin/mariadbd)
\t          d076a2 [unknown] (/opt/my server/bin/mariadbd)
\t           891f4 start_thread (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t          1098eb clone3 (/usr/lib/x86_64-linux-gnu/libc.so.6)

  1342 25315.801006: PERF_RECORD_LOST lost 7
  1343 25315.803006: 
\t           1190 plant_spin (/tmp/x/libspin.so (deleted))
\tffffffffffffffff [unknown] ([unknown])

"""  # noqa: W291


def test_samples_become_stacks_from_the_outermost_frame() -> None:
    folded = fold(SCRIPT.splitlines())
    whole, cut = folded.stacks
    assert whole == (
        "libc.so.6`clone3", "libc.so.6`start_thread", "mariadbd`[unknown]", "mariadbd`JOIN::exec_inner(bool)",
        "kernel`__schedule", "kernel`finish_task_switch",
    )  # fmt: skip
    assert cut == (CUT_OFF, "libspin.so`plant_spin")
    assert (folded.samples, folded.cut_off, folded.lost) == (2, 1, 7)
    assert (folded.frames, folded.unknown_frames) == (7, 1)


def test_a_thread_begins_in_a_c_library_without_symbols_too() -> None:
    text = "1 1.0:\n\t12 work (/bin/mysqld)\n\t34 [unknown] (/lib/libc.so.6)\n\n1 2.0:\n\t12 __send (/lib/libc.so.6)\n"
    folded = fold(text.splitlines())
    assert ("libc.so.6`[unknown]", "mysqld`work") in folded.stacks
    assert (CUT_OFF, "libc.so.6`__send") in folded.stacks


def test_copies_of_a_function_by_the_compiler_are_one_function() -> None:
    names = {
        frame_name(f"row_sel{suffix}", "/bin/mysqld") for suffix in ("", ".part.0", ".cold", ".isra.0.constprop.1")
    }
    assert names == {"mysqld`row_sel"}


def test_names_cannot_break_the_folded_format() -> None:
    assert (
        frame_name("operator new[](unsigned long; int)", "/bin/my;sqld") == "my:sqld`operator_new[](unsigned_long:_int)"
    )
