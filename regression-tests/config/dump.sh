# What --dump-config prints, --config reads: for every program and command the same configuration again.
round() {
  "$NMT_BIN/$1" "${@:2}" --dump-config > first || { echo "$*: no dump"; return; }
  local command=()
  case $1 in nmt-eval | nmt-vocab) [[ ${2-} = -* ]] || command=(${2-}) ;; esac
  "$NMT_BIN/$1" "${command[@]}" --config first --dump-config > second || { echo "$*: cannot be read again"; return; }
  cmp first second && [ -s first ] && echo "$*: the same"
}
round nmt-vocab
round nmt-vocab --type words --size 100 --train-sets a b --lowercase --merges code
round nmt-vocab encode
round nmt-vocab decode --ids
round nmt-vocab inspect
round nmt-vocab shortlist --best 50
round nmt-train --model m.safetensors
round nmt-train --model m.safetensors --task transformer-big --vocabs v --train-sets a b
round nmt-average
round nmt-average a.safetensors b.safetensors --weights 1 0.1
round nmt-decode
round nmt-decode --ensemble a.safetensors b.safetensors --n-best
round nmt-decode --model a.safetensors --attention out --alignment links --alignment-layer 2 --alignment-step input
round nmt-eval alignment
round nmt-eval bleu
round nmt-eval chrf --word-order 2
round nmt-eval ter --hypothesis a b --paired

echo "== of several files the last wins, the command line over all"
printf 'size = 1000\nseed = 1\nmin-count = 1\n' > one
printf 'seed = 2\nmin-count = 2\n' > two
"$NMT_BIN/nmt-vocab" --config one --config two --min-count 3 --dump-config | grep -e '^size' -e '^seed' -e '^min-count'

echo "== values in brackets, on the command line and from a file"
printf 'user-defined-symbols = [MASK]\n' > bracketed
printf '\xef\xbb\xbfuser-defined-symbols = [a,b]\n' > marked
"$NMT_BIN/nmt-vocab" --config bracketed --dump-config | grep '^user'
"$NMT_BIN/nmt-vocab" --config marked --dump-config | grep '^user'
"$NMT_BIN/nmt-vocab" --user-defined-symbols '[MASK]' '[a,b]' '[]' --dump-config | grep '^user'
"$NMT_BIN/nmt-vocab" --user-defined-symbols='[MASK]' --normalization='[x]' --dump-config 2>&1

echo "== options before a command"
"$NMT_BIN/nmt-vocab" --size 100 encode --vocab v 2>&1
echo "exit code $?"
