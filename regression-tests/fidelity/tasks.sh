# The recipes of --task against "Attention Is All You Need": the base model with its training (sections 3, 5 and 6.1), then
# what each other one has instead (Table 3, and the parsers of section 6.3; its column of ten-minute checkpoints is section 6.1).
set -eu
settings() { "$NMT_BIN/nmt-train" --task "$1" --vocabs none --train-sets none none --dump-config | grep -v '^#\|^$\|^task '; }

settings transformer-base > base
grep -E '^(dim|enc|dec|tied|transformer|lr|learn|optimizer|label|batch|after|save)' base
"$NMT_BIN/nmt-train" --help | grep -o 'transformer-base, [^)]*' | tr -d ' ' | tr ',' '\n' | tail -n +2 |
  grep -v -e '-tiny$' | while read -r task; do
  settings "$task" > other
  echo "$task:$(diff base other | sed -n 's/^> \(.*\) = /, \1 /p' | tr -d '\n' | sed 's/^,//')"
done
