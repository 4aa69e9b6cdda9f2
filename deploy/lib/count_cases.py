#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts test cases by what `bazel test` printed and by the test.xml files of its targets.

    count_cases.py OUTPUT TESTLOGS

Prints each failed case, and as its last line "PASSED FAILED SKIPPED", three numbers. A target that
failed without a failed case counts as one: it crashed, ran out of time or did not build.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree

VERDICT = re.compile(r"^(//\S+)\s+(?:\(cached\) )?([A-Z][A-Z ]*[A-Z])(?: in .*)?$", re.MULTILINE)


def cases_of(report):
    """Numbers of passed and skipped cases, and the names of the failed ones."""
    passed, skipped, bad = 0, 0, []
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            bad.append(f"{case.get('classname', '')}.{case.get('name', '')}")
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            skipped += 1
        else:
            passed += 1
    return passed, skipped, bad


def main(output, testlogs):
    """Counts and prints."""
    passed = failed = skipped = 0
    verdicts = dict(VERDICT.findall(pathlib.Path(output).read_text(errors="replace")))
    for label, verdict in sorted(verdicts.items()):
        report = pathlib.Path(testlogs, label[2:].replace(":", "/"), "test.xml")
        good, left_out, bad = 0, 0, []
        if verdict in ("PASSED", "FAILED", "FLAKY") and report.is_file():
            good, left_out, bad = cases_of(report)
        if verdict != "PASSED" and not bad:
            bad = [verdict]
        for case in bad:
            print(f"FAIL {label} {case}")
        passed += good
        skipped += left_out
        failed += len(bad)
    print(passed, failed, skipped)


if __name__ == "__main__":
    main(*sys.argv[1:])
