#!/usr/bin/env bash
# From a fresh Debian 12 to generated text: packages, build, models, one run with speculation and without.
#
#   tools/setup.sh                   all of it
#   tools/setup.sh --packages-only   Debian packages of build and tests, nothing else
#   tools/setup.sh --no-run          packages, build and models
#
# Safe to run again: what is there is left alone. Root or sudo is needed only for missing packages.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/lib.sh

TARGET=qwen2.5-coder-1.5b-q4_k_m
DRAFTER=qwen2.5-coder-0.5b-q4_k_m
PROMPT='def quicksort(items):\n    """Sorts a list of numbers and returns a new list."""\n'

packages_only=false
run=true
for arg in "$@"; do
    case $arg in
        --packages-only) packages_only=true ;;
        --no-run) run=false ;;
        -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) fail "unknown argument '$arg'; see tools/setup.sh --help" ;;
    esac
done

install_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
if $packages_only; then
    exit 0
fi

say "== build"
# Tests and micro-benchmarks aren't part of what a user needs; tools/test.sh builds them in the same folder later.
configure release -DFORESAY_TESTS=OFF -DFORESAY_BENCH=OFF >/dev/null
cmake --build --preset release --target foresay

say "== models"
python3 tools/fetch_models.py "$TARGET" "$DRAFTER"
if ! $run; then
    exit 0
fi

models=${FORESAY_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/foresay/models}
say "== run: $TARGET with $DRAFTER as drafter, then without"
build/release/foresay run -m "$models/$TARGET.gguf" --spec-draft-model "$models/$DRAFTER.gguf" --spec-type draft-simple \
    --temp 0 -n 128 --compare-plain --no-log-prefix --no-log-timestamps -p "$PROMPT"
say ""
say "Next: build/release/foresay serve -m $models/$TARGET.gguf --spec-draft-model $models/$DRAFTER.gguf"
