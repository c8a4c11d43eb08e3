# Sourced by the recipes: where the programs are, and files that must be there.
set -euo pipefail
export LC_ALL=C
bin=${NMT_BIN:-$(dirname "${BASH_SOURCE[0]}")/../build/bin}
# Those of an installed tree, in PATH.
[ -n "${NMT_BIN:-}" ] || [ -x "$bin/nmt-train" ] || bin=$(dirname "$(command -v nmt-train || echo nmt-train)")

fail() { echo "$(basename "$(dirname "$0")")/$(basename "$0"): $*" >&2; exit 2; }
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }  # the comment that begins the script
[ -x "$bin/nmt-train" ] || fail "no executables in $bin: build them, or set NMT_BIN"

cpu() { awk -F ': ' '/^model name/ { print $2; exit }' /proc/cpuinfo; }

# need FOLDER WHAT FILE...: fails, naming every file that is missing and what they are.
need() {
  local folder=$1 what=$2 file missing=()
  shift 2
  for file in "$@"; do [ -f "$folder/$file" ] || missing+=("$file"); done
  [ ${#missing[@]} -eq 0 ] || fail "$folder lacks ${missing[*]}: $what"
}

same_lines() {  # same_lines FILE FILE: fails where the sides of a text differ in their number of lines.
  [ "$(wc -l < "$1")" = "$(wc -l < "$2")" ] || fail "$1 has $(wc -l < "$1") lines, $2 $(wc -l < "$2")"
}

# kept PREFIX: the numbered checkpoints of PREFIX.safetensors, oldest first: those of epochs, or of updates.
kept() {
  local kind found
  for kind in epoch iter; do
    found=$(find "$(dirname "$1")" -maxdepth 1 -name "$(basename "$1").$kind*.safetensors" | sort -V)
    [ -z "$found" ] || { echo "$found"; return; }
  done
}

# average_last N PREFIX: the mean of the last N checkpoints of PREFIX.safetensors, or of all where there are fewer, as
# PREFIX.avg.safetensors.
average_last() {
  local last
  mapfile -t last < <(kept "$2" | tail -n "$1")
  [ ${#last[@]} -gt 0 ] || fail "$2.safetensors has no checkpoints beside it: train with --save-freq"
  "$bin/nmt-average" --output "$2.avg.safetensors" "${last[@]}"
}
