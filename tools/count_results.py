#!/usr/bin/env python3
"""Counts test cases in JUnit files: prints "passed failed skipped".

    count_results.py ctest.xml [folder of GoogleTest's XML files]
    count_results.py pytest.xml

With a folder, a CTest test that wrote a GoogleTest file counts as its cases; one that crashed before writing (or isn't
GoogleTest) counts as one. A missing or broken file counts as one failure.
"""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Tuple

Counts = Tuple[int, int, int]


def count_cases(path: Path) -> Counts:
    passed = failed = skipped = 0
    for case in ET.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            failed += 1
        elif case.find("skipped") is not None or case.get("status") == "notrun" or case.get("result") == "skipped":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def count_ctest(path: Path, folder: Path) -> Counts:
    total = [0, 0, 0]
    for case in ET.parse(path).getroot().iter("testcase"):
        detail = folder / f"{case.get('name')}.xml"
        has_failed = case.find("failure") is not None or case.get("status") == "fail"
        counts: Counts = (0, 1, 0) if has_failed else (1, 0, 0)
        if case.find("skipped") is not None:
            counts = (0, 0, 1)
        if detail.exists():
            try:
                counts = count_cases(detail)
                if has_failed and counts[1] == 0:
                    counts = (counts[0], 1, counts[2])  # all cases passed, the program didn't: a leak report, say
            except ET.ParseError:
                pass
        total = [a + b for a, b in zip(total, counts)]
    return total[0], total[1], total[2]


def main() -> int:
    path = Path(sys.argv[1])
    try:
        counts = count_ctest(path, Path(sys.argv[2])) if len(sys.argv) > 2 else count_cases(path)
    except (OSError, ET.ParseError) as failure:
        print(f"{path}: {failure}", file=sys.stderr)
        counts = (0, 1, 0)
    print(*counts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
