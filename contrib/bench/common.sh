# Sourced by the scripts beside it: settings and what they do with figures.
#   NMT_BIN: folder of the executables   PYTHON: a python with the peers   THREADS: 2 unless given
set -euo pipefail
export LC_ALL=C
bin=${NMT_BIN:-$here/../../build/bin} python=${PYTHON:-python3} threads=${THREADS:-2}
rows=(train-base-bf16 train-base-f32 train-tiny decode-base-int8 decode-base-f32 decode-base-bf16)  # of run's table
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "$(basename "$0"): $*" >&2; exit 2; }
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }  # the comment that begins the script
precision_of() { if [ "$1" = train-tiny ]; then echo bf16; else echo "${1##*-}"; fi; }  # ROW
[ -x "$bin/nmt-decode" ] || fail "no executables in $bin: build them, or set NMT_BIN"
require_python() { command -v "$python" > /dev/null || fail "there is no $python: PYTHON names a Python that has the peers"; }
require_files() {  # FILE...
  local file
  for file; do [ -f "$file" ] || fail "$file is missing"; done
}
cpu() { awk -F ': ' '/^model name/ { print $2; exit }' /proc/cpuinfo; }
vocabulary() {  # PIECES: of the text in $data, made in $folder where it is not there
  local file=$folder/vocab$1.spm
  [ -f "$file" ] || "$bin/nmt-vocab" --type bpe --size "$1" --character-coverage 1 \
    --train-sets "$data/train.en" "$data/train.de" --output "$file" >&2
  echo "$file"
}
# Libraries to load before a peer, which make it faster: tcmalloc, which does not hand large blocks of memory back to the system at
# once, and for PyTorch and Marian one with which MKL takes AMD's processors for what they can do (it multiplies float32 by AVX2 there,
# even where there is AVX-512).
preload() {
  local library
  library=$({ PATH=$PATH:/sbin ldconfig -p || true; } | awk '/libtcmalloc_minimal.so.4/ && !found { found = $NF } END { print found }')
  [ -n "$library" ] || echo "no tcmalloc (package libtcmalloc-minimal4): the peer will be slower than it need be" >&2
  if grep -q AuthenticAMD /proc/cpuinfo; then
    if echo 'int mkl_serv_intel_cpu_true(void) { return 1; }' | cc -shared -fPIC -x c - -o "$work/mkl.so"; then
      library+=" $work/mkl.so"
    else
      echo "no cc: a peer that has MKL will be slower than it need be" >&2
    fi
  fi
  echo "$library"
}
version() { "$python" -c "import $1; print($1.__version__)"; }  # of a peer's Python package

# take_turns ROUNDS PROGRAM...: each program once a round, by the script's `measure PROGRAM`. That prints target tokens a
# second first and peak memory last; the lines are kept in $work/PROGRAM.
take_turns() {
  local rounds=$1 round program
  shift
  for round in $(seq "$rounds"); do
    for program in "$@"; do
      measure "$program" >> "$work/$program"
      echo "round $round: $program $(tail -n 1 "$work/$program")" >&2
    done
  done
}

column() { awk -v c="$2" '{ print $c }' "$work/$1" | sort -g; }  # PROGRAM NUMBER
lowest() { column "$@" | sed -n 1p; }
highest() { column "$@" | tail -n 1; }
median() { column "$@" | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }
faster() { for program in "$@"; do echo "$(median "$program" 1) $program"; done | sort -g | awk 'END { print $2 }'; }

# report nmt PEER...: a table of medians, with the lowest and highest target tokens a second and the most memory, and the ratio
# to the faster peer. The script's `columns` name what `measure` prints between rate and memory.
report() {
  local program peer c last=$((${#columns[@]} + 2))
  printf '%9s ' tokens/s lowest highest "${columns[@]}" MB
  echo ' program'
  for program in "$@"; do
    printf '%9s ' "$(median "$program" 1)" "$(lowest "$program" 1)" "$(highest "$program" 1)"
    for ((c = 2; c < last; ++c)); do printf '%9s ' "$(median "$program" "$c")"; done
    printf '%9s  %s\n' "$(highest "$program" "$last")" "$program"
  done
  peer=$(faster "${@:2}")
  awk -v a="$(median "$1" 1)" -v b="$(median "$peer" 1)" -v peer="$peer" 'BEGIN { printf "ratio %.3f to %s\n", a / b, peer }'
}

# same A B: how many lines of $work/A.out and $work/B.out are the same.
same() {
  paste -d '\n' "$work/$1.out" "$work/$2.out" | awk 'NR % 2 { ours = $0; next } { n += ours == $0 } END { print n + 0, "of", NR / 2 }'
}

# rate WARM LOG: target tokens a second by the JSON log of an nmt-train, the first WARM updates not counted.
rate() {
  awk -v warm="$1" -F '[{},:"]+' '/"kind":"update"/ {
      for (i = 2; i < NF; i += 2) value[$i] = $(i + 1)
      if (value["update"] <= warm) { before = value["tokens"]; next }
      seconds += value["seconds"]
      tokens = value["tokens"] - before
    }
    END { printf "%.1f\n", tokens / seconds }' "$2"
}

# train WARM OPTION...: target tokens a second of nmt-train with these options, the first WARM updates not counted. What it
# prints is in $work/stdout, its peak memory in $work/memory, the model in $work/model.safetensors.
train() {
  local warm=$1
  rm -f "$work"/model.* "$work/log"
  /usr/bin/time -f %M -o "$work/memory" "$bin/nmt-train" "${@:2}" --disp-freq "${warm}u" --save-freq 0u --cpu-threads "$threads" \
    --model "$work/model.safetensors" --log-json "$work/log" --quiet > "$work/stdout"
  rate "$warm" "$work/log"
}
