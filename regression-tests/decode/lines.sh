# N lines in, N lines out, whatever is in them; lines of a pipe are answered as they come.
. "$NMT_ROOT/regression-tests/python.bash" numpy
make() { "$python" "$NMT_ROOT/regression-tests/decode/make_model.py" "$@"; }
warnings() { grep -o 'warning: .*' log || echo "no warnings"; }
set -e
make model.safetensors tied-embeddings-all=false tied-embeddings=false spread=1.5 seed=3
make second.safetensors tied-embeddings-all=false tied-embeddings=false spread=1.5 seed=4
decode() { "$NMT_BIN/nmt-decode" --model model.safetensors --max-length-extra 8 --beam-size 2 "$@"; }

echo "# any bytes"
{
  printf 'w2 w3\n\n   \t \nw4\r\n'
  printf 'w5 \xff\xc3 w6\n\0\n'
  for i in $(seq 10000); do printf 'w%d ' $((i % 28 + 2)); done
  printf '\nno word is known\nw7 w8'
} > odd
decode --input odd > out 2> log
wc -l < out
warnings
awk '$0 == "" { print "line " NR " is empty" }' out
decode --n-best < odd 2> /dev/null | awk -F ' [|][|][|] ' '!seen[$1]++ { n++ } END { print n " numbers, the last is " $1 }'
decode --max-length 20 < odd 2> log > /dev/null
warnings
printf '' | decode 2> /dev/null | wc -l
printf 'w2 w3 %0200000d w4\n' 0 | decode 2> log | cmp - <(echo 'w2 w3 0' | decode --quiet) && echo equal
warnings

echo "# nothing can be read"
decode --quiet 2>&1 <&- || echo "exit code $?"

echo "# compressed input, output to a file"
gzip < odd > odd.gz
decode --input odd.gz --output file 2> /dev/null
cmp file out && echo equal

echo "# a pipe is read once, also where standard error is a terminal"
mkfifo pipe
cat odd > pipe &
terminal() {
  timeout 100 script -qec "$NMT_BIN/nmt-decode --model model.safetensors --max-length-extra 8 --beam-size 2 $*" \
    /dev/null < /dev/null
}
terminal --input pipe --output piped > typed
cmp file piped && echo equal
bars() { tr '\r' '\n' < typed | grep -cE '[0-9]+ lines, [0-9.]+ lines/s' || true; }  # grep fails where it counts none
[ "$(bars)" -gt 0 ] && echo "a bar"
terminal --input odd > typed
echo "bars among the lines: $(bars)"

echo "# a line is answered before the next is written"
coproc server { decode --quiet; }
for line in "w2 w3" "" "w7 w8 w9 w10" "w4"; do
  echo "$line" >&"${server[1]}"
  IFS= read -r -t 60 -u "${server[0]}" answer
  [ "$answer" = "$(echo "$line" | decode --quiet)" ] && echo answered
done
eval "exec ${server[1]}>&-"
wait

echo "# a model that is cut short, or written to, while it is read"
mkfifo lines
harm() {  # COMMAND that does it, once a line is answered
  cp model.safetensors harmed.safetensors
  "$NMT_BIN/nmt-decode" --model harmed.safetensors --quiet --output unfinished < lines 2> log &
  pid=$!
  exec {lines}> lines
  echo "w7 w8" >&$lines
  until [ -s unfinished.part.$pid ]; do sleep 0.01; done
  "$@"
  exec {lines}>&-
  code=0
  wait $pid 2> /dev/null || code=$?
  echo "exit code $code"
  sed "s/$pid/N/; s/^\[.*\] //" log
  wc -l < unfinished.part.$pid
}
cut_short() { : > harmed.safetensors; }
write_to() {
  tail -c 4 model.safetensors | dd of=harmed.safetensors conv=notrunc oflag=seek_bytes status=none \
    seek=$(($(stat -c %s model.safetensors) - 4))
}
lose_pages() { kill -BUS $pid; }  # what reading them would do
harm cut_short
harm write_to
harm lose_pages

echo "# what is interrupted, or fails, leaves its lines"
mkfifo more
"$NMT_BIN/nmt-decode" --model model.safetensors --quiet --output begun --alignment linked < more 2> log &
pid=$!
exec {more}> more
echo "w7 w8" >&$more
until [ -s begun.part.$pid ] && [ -s linked.part.$pid ]; do sleep 0.01; done
kill -TERM $pid
code=0
wait $pid 2> /dev/null || code=$?
exec {more}>&-
echo "exit code $code"
sed "s/$pid/N/" log
wc -l < linked.part.$pid
echo "w7 w8" | "$NMT_BIN/nmt-decode" --model model.safetensors --quiet | cmp - begun.part.$pid && ls begun* | sed "s/$pid/N/"
printf 'w7 w8\nw3\n' > two
echo "w7" > one
"$NMT_BIN/nmt-decode" --quiet --model model.safetensors --input two --maxi-batch 1 --score-targets one --output scored 2>&1 | sed 's/part\.[0-9]*/part.N/; s/^\[.*\] //'
wc -l scored* | sed 's/part\.[0-9]*/part.N/'

echo "# with the configuration that is dumped"
decode --dump-config > dumped
"$NMT_BIN/nmt-decode" --config dumped --input odd 2> /dev/null | cmp - file && echo equal

echo "# a reader goes away"
mkdir links
for i in $(seq 200); do cat odd; done > many
decode --quiet --max-length 20 --input many --alignment links/out 2> /dev/null | head -n 1 > first || echo "$?"
cmp first <(head -n 1 file) && ls -A links | wc -l

echo "# ensembles"
ensemble() { "$NMT_BIN/nmt-decode" --max-length-extra 8 --normalize 1 --quiet --input odd --max-length 30 --n-best "$@" 2> /dev/null; }
ensemble --model model.safetensors > one
ensemble --ensemble model.safetensors model.safetensors --weights 3 0.5 > same
ensemble --ensemble model.safetensors second.safetensors --weights 1 1e-9 > mostly
ensemble --ensemble second.safetensors model.safetensors > two
"$python" - <<'END'
def read(path):
    return [line.rstrip("\n").split(" ||| ") for line in open(path, encoding="utf-8")]

def near(a, b):
    return len(a) == len(b) and all(x[:2] == y[:2] and abs(float(x[3]) - float(y[3])) < 1e-4 for x, y in zip(a, b))

one, same, mostly, two = map(read, ["one", "same", "mostly", "two"])
print("a model with itself:", "equal" if near(one, same) else "different")
print("all weight on one model:", "equal" if near(one, mostly) else "different")
print("two models:", "equal" if near(one, two) else "different")
END
printf 'w2 w3 w4\nw5\n' > sources
printf 'w6 w7\nw8 w9 w10\n' > targets
for models in model.safetensors second.safetensors "model.safetensors second.safetensors"; do
  "$NMT_BIN/nmt-decode" --quiet --ensemble $models --input sources --score-targets targets | cut -f 1
done | awk '{ sum[(NR - 1) % 2] += NR > 4 ? -2 * $1 : $1 }
  END { for (i = 0; i < 2; i++) print "mean of two models:", (sum[i] < 1e-4 && sum[i] > -1e-4 ? "yes" : sum[i]) }'
