#!/usr/bin/env python3
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
"""Runs rdma-core's own tests and compares what is skipped with a list: softhca_pyverbs_test.sh,
softmlx5_pyverbs_test.sh. Reports in TAP all but those that are skipped as listed.

Usage: pyverbs_suite.py TESTS_DIRECTORY infiniband|ethernet SKIPS_FILE...
"""
import fnmatch
import importlib
import os
import pathlib
import sys
import unittest

directory, link_layer, *skips_files = sys.argv[1:]
sys.argv[1:] = []
sys.path[:0] = [directory, os.path.dirname(os.path.abspath(directory))]

from args_parser import parser  # pylint: disable=wrong-import-position

parser.parse_args()


class Outcomes(unittest.TestResult):
    """What became of each test, by its id."""

    def __init__(self):
        super().__init__()
        self.outcomes = {}

    def addSuccess(self, test):
        super().addSuccess(test)
        self.outcomes[test.id()] = ('passed', '')

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.outcomes[test.id()] = ('skipped', reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.outcomes[test.id()] = ('failed', self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.outcomes[test.id()] = ('failed', self.errors[-1][1])


def read_skips():
    """The lists as (pattern, where) of this link layer."""
    skips = []
    for skips_file in skips_files:
        for line in pathlib.Path(skips_file).read_text(encoding='utf-8').splitlines():
            fields = line.split(None, 2)
            if not fields or fields[0].startswith('#'):
                continue
            pattern, where, _ = fields
            assert where in ('always', 'infiniband', 'ethernet', 'machine', 'fails'), line
            if where in ('always', 'machine', 'fails', link_layer):
                skips.append((pattern, where))
    return skips


def main():
    result = Outcomes()
    tests = importlib.import_module('tests')
    unittest.defaultTestLoader.loadTestsFromModule(tests).run(result)
    skips = read_skips()
    lists = ' or '.join(os.path.basename(file) for file in skips_files)
    cases = 0
    failed = False

    def report(what, why=None):
        nonlocal cases, failed
        cases += 1
        failed = failed or why is not None
        print(f'{"ok" if why is None else "not ok"} {cases} - {link_layer} {what}')
        for line in (why or '').splitlines():
            print(f'# {line}')

    passed = 0
    for test, (outcome, details) in sorted(result.outcomes.items()):
        listed = [where for pattern, where in skips if fnmatch.fnmatchcase(test, pattern)]
        if outcome == 'failed' and 'fails' not in listed:
            report(test, details or 'failed')
        elif outcome == 'failed':
            continue
        elif outcome == 'skipped' and not listed:
            report(test, f'skipped, and not in {lists}: {details}')
        elif outcome == 'passed' and any(where != 'machine' for where in listed):
            report(test, f'passes: {lists} says that it is skipped')
        elif outcome == 'passed':
            report(test)
        passed += outcome == 'passed'
    for pattern, _ in skips:
        if not any(fnmatch.fnmatchcase(test, pattern) for test in result.outcomes):
            report(pattern, 'no such test')
    if passed == 0:
        report('all', 'no test passed')
    print(f'1..{cases}')
    print(f'# {passed} tests passed, {len(result.skipped)} skipped')
    return failed


sys.exit(main())
