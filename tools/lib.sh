# Shared by tools/setup.sh, tools/test.sh and .ci/run: where things are, which packages are needed. Sourced, not run.
# Debian packages: shared/spec/dependencies.md, section 6.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

BUILD_PACKAGES=(g++ cmake ninja-build pkg-config python3 python3-pip libboost1.81-dev nlohmann-json3-dev libfmt-dev
                libspdlog-dev libpcre2-dev libutf8proc-dev libexpected-dev libxxhash-dev libssl-dev prometheus-cpp-dev)
TEST_PACKAGES=(libgtest-dev libgmock-dev libbenchmark-dev clang-14 clang-tidy-14 clang-tools-14 clang-format-14
               libclang-rt-14-dev python3-venv git chromium chromium-driver)

say() { printf '%s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

missing_packages() {  # the arguments that aren't installed
    local package
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || printf '%s\n' "$package"
    done
}

install_packages() {  # installs what is missing; needs root or sudo only then
    local missing as_root=()
    command -v dpkg-query >/dev/null || fail "this isn't a Debian system: install what README.md lists by hand"
    mapfile -t missing < <(missing_packages "$@")
    if [ "${#missing[@]}" -eq 0 ]; then
        say "packages: all there"
        return
    fi
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || fail "these packages are missing: ${missing[*]}; run as root or install sudo"
        as_root=(sudo)
    fi
    say "packages: installing ${missing[*]}"
    "${as_root[@]}" apt-get update -q
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

configure() {  # preset, further cmake arguments
    local launcher=()
    if command -v ccache >/dev/null; then
        launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
    fi
    local preset=$1
    shift
    cmake --preset "$preset" "${launcher[@]}" "$@"
}
