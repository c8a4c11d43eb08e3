# Sourced by the recipes: where the programs are, and files that must be there.
set -euo pipefail
export LC_ALL=C
bin=${NMT_BIN:-$here/../../../build/bin}
[ -x "$bin/nmt-train" ] || bin=$(dirname "$(command -v nmt-train || echo nmt-train)")  # of an installed tree, in PATH

fail() { echo "$(basename "$(dirname "$0")")/$(basename "$0"): $*" >&2; exit 2; }
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }  # the comment that begins the script
[ -x "$bin/nmt-train" ] || fail "no executables in $bin: build them, or set NMT_BIN"

# need FOLDER WHAT FILE...: fails, naming every file that is missing and what they are.
need() {
  local folder=$1 what=$2 file missing=()
  shift 2
  for file in "$@"; do [ -f "$folder/$file" ] || missing+=("$file"); done
  [ ${#missing[@]} -eq 0 ] || fail "$folder lacks ${missing[*]}: $what"
}
