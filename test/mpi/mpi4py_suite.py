# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# mpi4py_suite.py SOURCE OUTCOMES ARGUMENT...: mpi4py's own tests, SOURCE/test/main.py ARGUMENT... of its sources. Each rank
# writes to the file OUTCOMES.RANK how each test ended, or that it was begun: a line "TEST: OUTCOME" as soon as it is known.

import os
import runpy
import sys
import unittest

source, outcomes = sys.argv[1:3]
rank = os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "0"))


class Result(unittest.TextTestResult):
    file = open(f"{outcomes}.{rank}", "w", buffering=1)

    def tell(self, test, outcome):
        self.file.write(f"{getattr(test, 'test_case', test).id()}: {outcome}\n")

    def startTest(self, test):
        super().startTest(test)
        self.tell(test, "begins")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.tell(test, "ok")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.tell(test, f"skipped: {reason}")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.tell(test, "fails")

    def addError(self, test, error):
        super().addError(test, error)
        self.tell(test, "has an error")

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.tell(test, "a part of it fails")

    def addExpectedFailure(self, test, error):
        super().addExpectedFailure(test, error)
        self.tell(test, "fails as it may")


unittest.TextTestRunner.resultclass = Result
sys.argv = [os.path.join(source, "test", "main.py"), *sys.argv[3:]]
sys.dont_write_bytecode = True
runpy.run_path(sys.argv[0], run_name="__main__")
