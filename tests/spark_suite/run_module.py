"""Runs one module of Spark's own tests and says what became of each test, one line each.

`cargo xtask spark-suite` calls it: `run_module.py MODULE`, against SPARK_CONNECT_TESTING_REMOTE.
A line is RESULT, what became of the test, its name and, for a test that did not pass, the reason,
with tabs between them. Where ONEFOLD_BESIDE_CLASSIC is set, a classic session is there as well.
"""

import faulthandler
import os
import sys
import threading
import unittest

# A test that takes longer hangs: the process says where, and ends.
TEST_TIMEOUT_S = 240


def one_line(text: str) -> str:
    return " ".join(text.split())[:400]


class Lines(unittest.TestResult):
    """Says each result when it is known, so that a module that is killed has told the others."""

    def say(self, what: str, test: unittest.TestCase, why: str = "") -> None:
        name = getattr(test, "_testMethodName", str(test))
        print("\t".join(["RESULT", what, name, one_line(why)]), flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.outcome = ("ok", "")
        faulthandler.dump_traceback_later(TEST_TIMEOUT_S, exit=True)

    def stopTest(self, test):
        faulthandler.cancel_dump_traceback_later()
        self.say(self.outcome[0], test, self.outcome[1])
        super().stopTest(test)

    def addError(self, test, err):
        super().addError(test, err)
        self.failed("error", test, err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.failed("fail", test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.failed("fail", test, err)

    def failed(self, what, test, err):
        print(self._exc_info_to_string(err, test), file=sys.stderr, flush=True)
        reason = f"{err[0].__name__}: {err[1]}"
        if not isinstance(test, unittest.TestCase):
            # Setting a class up failed: its tests do not run.
            self.say(what, test, reason)
            return
        self.outcome = (what, reason)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.outcome = ("skip", reason)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)


def main(names: list[str]) -> int:
    if "ONEFOLD_BESIDE_CLASSIC" in os.environ:
        import beside_classic

        beside_classic.start()
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = Lines()
    suite.run(result)
    print(f"DONE\t{result.testsRun}", flush=True)
    # Threads of a client that still waits must not keep the process.
    sys.stdout.flush()
    sys.stderr.flush()
    if threading.active_count() > 1:
        os._exit(0)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
