#!/usr/bin/env bash
# Runs all tests and checks. Ends with a line "N passed, N failed, N skipped" over all stages; exit status 1 if any failed.
#
#   tools/test.sh                 all stages
#   tools/test.sh unit e2e        only these
#   tools/test.sh --list          the stages
#
# FORESAY_SHARED   reference data (goldens); default ../shared beside the repository
# FORESAY_MODELS   model files; default ~/.cache/foresay/models (tools/fetch_models.py puts them there)
# FORESAY_JOBS     parallel compilers; default: the number of processors
# FORESAY_FUZZ_S   seconds per fuzz target; default 12
# FORESAY_TEST_MIN most minutes of all stages together; default 84
#
# A stage is a line of STAGES and a function of that name in tools/test_stages.sh.
set -uo pipefail
cd "$(dirname "$0")/.."
source tools/lib.sh
source tools/test_stages.sh

# name      most minutes  what
STAGES="
format      1    clang-format 14 over the sources
unit        38   release build, unit and conformance tests (ctest)
e2e         10   pytest: the real program with small models
asan        25   unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
tsan        12   threading tests under ThreadSanitizer
fuzz        15   each libFuzzer target for a short time
tidy        10    clang-tidy over changed files, or a subset
"

export FORESAY_SHARED=${FORESAY_SHARED:-$root/../shared}
export FORESAY_MODELS=${FORESAY_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/foresay/models}
jobs=${FORESAY_JOBS:-$(nproc)}
fuzz_seconds=${FORESAY_FUZZ_S:-12}
deadline=$((SECONDS + ${FORESAY_TEST_MIN:-84} * 60))
logs=$root/build/test-logs
mkdir -p "$logs"
[ -d "$FORESAY_SHARED" ] || say "note: FORESAY_SHARED=$FORESAY_SHARED isn't there: conformance tests will be skipped or fail"

if [ "${1:-}" = --list ]; then
    say "$STAGES"
    exit 0
fi

total_passed=0
total_failed=0
total_skipped=0
summary=""
wanted=" $* "

while read -r name minutes what; do
    [ -n "$name" ] || continue
    [ $# -eq 0 ] || [[ $wanted == *" $name "* ]] || continue
    say ""
    say "== $name: $what"
    started=$SECONDS
    limit=$((minutes * 60))
    [ $((deadline - SECONDS)) -ge "$limit" ] || limit=$((deadline - SECONDS))
    [ "$limit" -gt 0 ] || limit=1  # no time left: the stage fails, it isn't left out in silence
    result=$logs/$name.result
    rm -f "$result"
    # In a process group of its own under a limit, so that a hang ends with this stage and leaves nothing behind.
    FORESAY_STAGE_RESULT=$result FORESAY_STAGE_END=$(($(date +%s) + limit)) timeout --kill-after=10 "$limit" \
        bash -uo pipefail -c 'source tools/lib.sh; source tools/test_stages.sh; jobs=$1 fuzz_seconds=$2 logs=$3; "stage_$4"' \
        _ "$jobs" "$fuzz_seconds" "$logs" "$name" </dev/null
    status=$?
    passed=0 failed=0 skipped=0
    [ -f "$result" ] && read -r passed failed skipped <"$result"
    # A stage that ends badly without having counted a failure (a build error, a hang) is a failure itself.
    if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
        failed=1
        say "stage $name ended with status $status$([ "$status" -eq 124 ] && printf ' (over %s s)' "$limit")"
    fi
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
    total_skipped=$((total_skipped + skipped))
    summary+=$(printf '%-8s %5d passed %5d failed %5d skipped %5d s' "$name" "$passed" "$failed" "$skipped" $((SECONDS - started)))$'\n'
done <<<"$STAGES"

[ -n "$summary" ] || fail "no such stage: $*; see tools/test.sh --list"
say ""
say "$summary"
say "$total_passed passed, $total_failed failed, $total_skipped skipped"
[ "$total_failed" -eq 0 ]
