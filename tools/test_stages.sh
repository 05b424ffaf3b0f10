# The stages of tools/test.sh: one function each, which ends by calling `count PASSED FAILED SKIPPED`. Sourced, not run.
# They find jobs, fuzz_seconds, logs and the functions of tools/lib.sh.

count() { printf '%s %s %s\n' "$1" "$2" "$3" >"$FORESAY_STAGE_RESULT"; }

sources() { find src tests bench -name '*.cpp' -o -name '*.h' | sort; }

# A build that fails ends the stage; its log is shown from its end.
build() {  # preset, targets (none: all)
    local preset=$1 log=$logs/build-$1.log
    shift
    if ! cmake --build "build/$preset" -j "$jobs" ${1:+--target "$@"} >"$log" 2>&1; then
        grep -E 'error:|FAILED' "$log" | cut -c 1-200 | sort -u | head -20
        tail -15 "$log" | cut -c 1-300
        return 1
    fi
}

# One CTest test holds many cases of GoogleTest: they are counted from the programs' XML files.
run_ctest() {  # preset, further ctest arguments
    local preset=$1 status
    shift
    rm -rf "$logs/gtest-$preset"
    mkdir -p "$logs/gtest-$preset"
    local stop=()
    # Out of time, CTest itself stops and still writes its results; a killed one would lose what it has counted.
    [ -z "${FORESAY_STAGE_END:-}" ] || stop=(--stop-time "$(date -d "@$((FORESAY_STAGE_END - 20))" +%H:%M:%S)")
    GTEST_OUTPUT="xml:$logs/gtest-$preset/" ctest --test-dir "build/$preset" --output-on-failure --timeout 900 \
        --output-junit "$logs/ctest-$preset.xml" "${stop[@]}" "$@" >"$logs/ctest-$preset.log" 2>&1
    status=$?
    # A failing program's output goes before the table of tests: show both, not the passing ones.
    grep -vE '^ *[0-9]+/[0-9]+ Test .*Passed|^ *Start +[0-9]+' "$logs/ctest-$preset.log" | tail -150
    count $(python3 tools/count_results.py "$logs/ctest-$preset.xml" "$logs/gtest-$preset")
    return $status
}

stage_format() {
    local bad
    # clang-format names each place; one line per file is enough.
    bad=$(sources | xargs -n 20 clang-format-14 --dry-run -Werror 2>&1 | sed -n 's/:[0-9]*:[0-9]*: error:.*//p' | sort -u)
    if [ -n "$bad" ]; then
        say "not formatted:"
        say "$bad"
        count 0 1 0  # one check, not one per file: the count should speak of tests
        return 1
    fi
    count 1 0 0
}

stage_unit() {
    configure release -DFORESAY_TESTS=ON -DFORESAY_BENCH=ON >"$logs/configure-release.log" 2>&1 || { tail -20 "$logs/configure-release.log"; return 1; }
    # What does build is tested all the same; a test without its program is not counted as passed, and the stage fails.
    local built=0
    build release all -- -k 0 || built=1
    run_ctest release && [ "$built" -eq 0 ]
}

stage_e2e() {
    # Nothing to do after `unit`; alone, it must not test an old program.
    configure release >"$logs/configure-release.log" 2>&1 || { tail -20 "$logs/configure-release.log"; return 1; }
    build release foresay || return 1
    if [ ! -x .venv/bin/pytest ] || [ tests/requirements.txt -nt .venv/.made ]; then
        python3 -m venv .venv && .venv/bin/pip install -q --disable-pip-version-check -r tests/requirements.txt || return 1
        touch .venv/.made
    fi
    .venv/bin/pytest -q -p no:cacheprovider --junit-xml="$logs/e2e.xml" tests/e2e
    local status=$?
    count $(python3 tools/count_results.py "$logs/e2e.xml")
    return $status
}

# Model tests under sanitizers take hours and find what the unit tests find: left out here, they run in `unit`.
stage_asan() {
    configure asan -DFORESAY_BENCH=OFF >"$logs/configure-asan.log" 2>&1 || { tail -20 "$logs/configure-asan.log"; return 1; }
    local targets
    mapfile -t targets < <(test_targets asan | grep -vE "$HEAVY_TESTS")
    local built=0
    build asan "${targets[@]}" -- -k 0 || built=1
    run_ctest asan -R "^($(IFS='|'; printf '%s' "${targets[*]}"))$" && [ "$built" -eq 0 ]
}

stage_tsan() {
    # Asio's fences are invisible to ThreadSanitizer (g++ 12 says so, as a warning); its locks are enough without them.
    configure tsan -DFORESAY_BENCH=OFF -DCMAKE_CXX_FLAGS=-DBOOST_ASIO_DISABLE_FENCED_BLOCK >"$logs/configure-tsan.log" 2>&1 || { tail -20 "$logs/configure-tsan.log"; return 1; }
    local targets
    mapfile -t targets < <(test_targets tsan | grep -E "$THREAD_TESTS")
    local built=0
    build tsan "${targets[@]}" -- -k 0 || built=1
    # ThreadSanitizer of g++ 12 can't place its shadow memory at high address-space randomness.
    setarch -R true 2>/dev/null && local plain=(setarch -R) || local plain=()
    TSAN_OPTIONS="halt_on_error=1" "${plain[@]}" bash -uo pipefail -c '
        source tools/lib.sh; source tools/test_stages.sh; logs=$1; shift; run_ctest tsan "$@"' _ "$logs" \
        -R "^($(IFS='|'; printf '%s' "${targets[*]}"))$" && [ "$built" -eq 0 ]
}

# Patterns over test names.
HEAVY_TESTS='real_models|acceptance_rules|engine_life|strict_identity|verification_protocol|capacity|synthetic_models|drafters|identity|rollback|structured|prompt_cache'
THREAD_TESTS='^(base|engine|server|sched|backend_cpu)_test$'

test_targets() {  # preset: the names of its test programs (a CTest test of another kind has no target)
    ctest --test-dir "build/$1" -N 2>/dev/null | sed -n 's/^ *Test *#[0-9]*: \(.*_test\)$/\1/p'
}

stage_fuzz() {
    configure fuzz >"$logs/configure-fuzz.log" 2>&1 || { tail -20 "$logs/configure-fuzz.log"; return 1; }
    local names=() name passed=0 failed=0
    mapfile -t names < <(find tests/fuzz -name '*_fuzz.cpp' -exec basename {} .cpp \; | sort)
    [ "${#names[@]}" -gt 0 ] || { count 0 0 0; return 0; }
    # One target that does not build must not keep the others from running: it has no program then and counts as failed.
    rm -f build/fuzz/*_fuzz  # an old one must not stand in for it
    build fuzz "${names[@]}" -- -k 0
    for name in "${names[@]}"; do
        local corpus=$logs/corpus-$name seeds=tests/fuzz/corpus/${name%_fuzz}
        mkdir -p "$corpus"
        if [ ! -x "build/fuzz/$name" ]; then
            say "$name: not built"
            failed=$((failed + 1))
            continue
        fi
        [ -d "$seeds" ] || seeds=
        if build/fuzz/"$name" -max_total_time="$fuzz_seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
            -artifact_prefix="$logs/$name-" "$corpus" $seeds >"$logs/$name.log" 2>&1; then
            say "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/$name.log") runs, no finding"
            passed=$((passed + 1))
        else
            say "$name: FOUND something"
            tail -30 "$logs/$name.log"
            failed=$((failed + 1))
        fi
    done
    count "$passed" "$failed" 0
    [ "$failed" -eq 0 ]
}

# Files that differ from main's last commit's parent or from the index; FORESAY_TIDY_BASE names another commit to compare with.
tidy_files() {
    local base=${FORESAY_TIDY_BASE:-HEAD~1}
    { git diff --name-only --diff-filter=d "$base" -- 'src/*.cpp' 2>/dev/null; git diff --name-only --diff-filter=d -- 'src/*.cpp' 2>/dev/null; } |
        grep -v '_test\.cpp$' | sort -u | head -12
}

stage_tidy() {
    local files=()
    mapfile -t files < <(tidy_files)
    if [ "${#files[@]}" -eq 0 ]; then
        files=(src/base/result.cpp src/cli/flag_values.cpp src/cli/parser.cpp)
    fi
    configure tidy -DFORESAY_BENCH=OFF >"$logs/configure-tidy.log" 2>&1 || { tail -20 "$logs/configure-tidy.log"; return 1; }
    local passed=0 failed=0 file
    # One process per file, two at a time: each file's verdict is counted on its own.
    printf '%s\n' "${files[@]}" | xargs -P "$jobs" -I{} sh -c \
        'clang-tidy-14 -p build/tidy --quiet "$1" >"$2/tidy-$(printf %s "$1" | tr / _).log" 2>/dev/null && echo "ok $1" || echo "bad $1"' _ {} "$logs" \
        >"$logs/tidy.verdicts"
    while read -r verdict file; do
        if [ "$verdict" = ok ]; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            say "clang-tidy: $file"
            grep -E 'error|warning' "$logs/tidy-$(printf %s "$file" | tr / _).log" | head -10
        fi
    done <"$logs/tidy.verdicts"
    count "$passed" "$failed" 0
    [ "$failed" -eq 0 ]
}
