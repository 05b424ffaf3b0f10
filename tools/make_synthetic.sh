#!/usr/bin/env bash
# Makes the tiny targets and drafters of goldens/synthetic-pairs (16 MB, deterministic) where the tests look for them:
# $FORESAY_MODELS/synthetic-pairs. Needs Python's venv; numpy and gguf go into a venv that lives as long as the script; the sums are checked.
set -euo pipefail
cd "$(dirname "$0")/.."
source=${FORESAY_SHARED:-../shared}/goldens/synthetic-pairs
models=${FORESAY_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/foresay/models}/synthetic-pairs
if [ ! -f "$source/gen_synthetic.py" ]; then
    echo "no reference data at $source: nothing to make; tests that need these models are skipped"
    exit 0
fi
source=$(cd "$source" && pwd)
holds() { (cd "$models" 2>/dev/null && sha256sum --check --quiet "$source/SHA256SUMS" >/dev/null 2>&1); }
if holds; then
    echo "synthetic-pairs: there ($models)"
    exit 0
fi
mkdir -p "$models"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check numpy gguf
"$work/venv/bin/python" "$source/gen_synthetic.py" "$models" >/dev/null
holds || { echo "error: the files in $models differ from SHA256SUMS" >&2; exit 1; }
echo "synthetic-pairs: done ($models)"
