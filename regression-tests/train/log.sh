# What training tells: the lines of its log, JSON, a bar on a terminal only, its configuration.
. "$NMT_ROOT/regression-tests/train/tiny.bash"
run="$tiny --after 3e --disp-freq 50u"
"$NMT_BIN/nmt-train" $run --valid-sets data/dev.en data/dev.de --valid-freq 50u --save-freq 1e --log copy.log \
  --log-json log.json > out.txt 2> log.txt

# The form that readers of Marian's logs know. 200 pairs in batches of 4: an epoch has 50 updates.
line='^\[20[0-9]{2}-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-6][0-9]\] Ep\. [0-9]+ : Up\. [0-9]+ : Sen\. [0-9,]+ '
line="$line: Cost [0-9]+\.[0-9]{8} : Time [0-9]+\.[0-9]{2}s : [0-9]+\.[0-9]{2} words/s : gNorm [0-9]+\.[0-9]{4} "
line="$line: L\.r\. [0-9]\.[0-9]{4}e[-+][0-9]{2}$"
grep -E "$line" log.txt | sed -E 's/.*\] (.*) : Cost.*(L.r.*)/\1 : \2/'
sed -nE 's/^.{22}(\[valid\] .*) : [0-9.]* : (.*)/\1 : \2/p; s/^.{22}(.* pairs in .* batches), .*/\1/p' log.txt
cmp log.txt copy.log && echo "a copy of the log"
echo "epochs that say how long they waited for data: $(grep -cE '; waited for data: [0-9]+\.[0-9]{2}% of 0:[0-9:]{5}$' log.txt)"
echo "standard output: $(wc -c < out.txt) bytes; control characters in the log: $(grep -c '[[:cntrl:]]' log.txt || true)"
ls model.epoch*

# JSON: one object a line, with the same keys for each kind; what it says is what the log says.
sed -E 's/"(text|metric)":"[^"]*"/"\1":""/; s/:-?[0-9][-+.0-9e]*/:0/g' log.json | sort | uniq -c | sed 's/^ *//'
grep -c '"kind":"update".*"update":150,"sentences":600,' log.json
awk -v line="$(grep -E "$line" log.txt | tail -n 1)" -v json="$(grep '"update":150,.*"cost"' log.json)" 'BEGIN {
  sub(/.*Cost /, "", line)
  sub(/.*"cost":/, "", json)
  difference = line - json
  print (difference < 1e-8 && difference > -1e-8 ? "the same cost" : "costs differ")
}'
sed -n 's/.*"wait_share":\([^,]*\),.*/\1/p' log.json | awk '$1 < 0 || $1 > 1 { print "a share of", $1 }'

# The log begins with what was asked for: a command that gives the same run.
"$NMT_BIN/nmt-train" $run --no-tied-embeddings-all --after 2u --model "it's a.safetensors" 2> first.txt
given=$(sed -nE '1s/^.{22}nmt-train [0-9.]+ \([^)]*\): //p' first.txt)
echo "$given"
mkdir again && ln -s ../data ../vocab.spm again/ && (cd again && eval "'$NMT_BIN/nmt-train' $given" 2> /dev/null)
cmp "it's a.safetensors" "again/it's a.safetensors" && echo "the same model"

# A run that goes on appends to its logs.
for end in 4u 8u; do
  "$NMT_BIN/nmt-train" $run --after $end --disp-freq 4u --model twice.safetensors --log twice.log 2> /dev/null
done
echo "updates in the log of two runs: $(sed -n 's/.*Up\. \([0-9]*\) : Sen.*/\1/p' twice.log | tr '\n' ' ')"

# What ends a training is the end of its logs, too.
"$NMT_BIN/nmt-train" $run --seed 2 --model twice.safetensors --log end.log --log-json end.json 2> end.txt || echo "exit code $?"
tail -n 1 end.txt
tail -n 1 end.log | cut -c 23-
cut -d , -f 1,3,6- end.json

# A line that a full disk cut off stays by itself.
printf '{"cut off' | tee cut.json > cut.log
"$NMT_BIN/nmt-train" $run --after 2u --disp-freq 1u --model cut.safetensors --log cut.log --log-json cut.json 2> /dev/null
cut -c 1-16 cut.json | uniq -c | sed 's/^ *//'
head -n 1 cut.log

# On a terminal there is a bar between the lines, and none with --quiet.
terminal() { script -qec "$NMT_BIN/nmt-train $run --after 150u --disp-freq 1u --model t.safetensors --restart $*" /dev/null < /dev/null; }
terminal > typed.txt
tr '\r' '\n' < typed.txt | sed 's/^\x1b\[K//' | grep -oE '^\[#* *\] +[0-9]+%  [0-9]+ words/s  [0-9]+:[0-9]{2}:[0-9]{2} left' | head -n 1 |
  sed -E 's/[0-9]+/N/g; s/#//g; s/ +/ /g'
grep -q $'left\r\033\\[K\\[20' typed.txt && echo "a line takes the bar's place"
echo "quiet: $(terminal --quiet | wc -c) bytes"

# A run from the dumped configuration is the same run.
"$NMT_BIN/nmt-train" $run --clip-norm 0.5 --no-tied-embeddings-all --model a.safetensors --dump-config > dumped.cfg
grep -E '^(clip-norm|tied-embeddings-all|train-sets|model|dim-emb) ' dumped.cfg
"$NMT_BIN/nmt-train" $run --clip-norm 0.5 --no-tied-embeddings-all --model a.safetensors 2> /dev/null
"$NMT_BIN/nmt-train" --config dumped.cfg --model b.safetensors 2> /dev/null
cmp a.safetensors b.safetensors && echo "the same model"
"$NMT_BIN/nmt-train" --config dumped.cfg --model a.safetensors --dump-config | cmp - dumped.cfg
"$NMT_BIN/nmt-train" --vocabs vocab.spm --dump-config | grep cpu-threads  # not this machine's number of cores
# The vocabulary comes out of a model as it went in, one for both sides or two.
"$NMT_BIN/nmt-vocab" extract --model a.safetensors --output own.spm && cmp own.spm vocab.spm && echo "the same vocabulary"
"$NMT_BIN/nmt-vocab" --type bpe --size 290 --train-sets data/train.de --output de.spm 2> /dev/null
"$NMT_BIN/nmt-train" ${run/vocab.spm/vocab.spm de.spm} --no-tied-embeddings-all --after 1u --model two.safetensors 2> /dev/null
"$NMT_BIN/nmt-vocab" extract --model two.state --output one.spm other.spm && cmp one.spm vocab.spm && cmp other.spm de.spm &&
  echo "the same two"
for files in "a.safetensors --output x y" "two.safetensors --output x" "own.spm --output x" "a.safetensors --output x x"; do
  "$NMT_BIN/nmt-vocab" extract --model $files 2>&1 || echo "exit code $?"
done
[ ! -e x ]
# The model knows what it is, the checkpoint how it was trained.
head -c 20000 a.safetensors | tr -d '\\' | grep -aoE '"(dim-emb|tied-embeddings-all|transformer-norm)":[^,]*' | sort -u
head -c 20000 a.state | grep -aoE 'clip-norm = 0.5' | head -n 1
# A recipe fills in what was not given.
"$NMT_BIN/nmt-train" --task transformer-big --dim-emb 256 --dump-config |
  grep -E '^(task|dim-emb|transformer-dim-ffn|transformer-heads|transformer-dropout|after|save-freq) '
"$NMT_BIN/nmt-train" --task transformer-tiny --batch-target-words 500 --dump-config | grep -E '^(mini-batch-words|batch-.*-words) '
"$NMT_BIN/nmt-train" --target-trees --valid-sets none none --valid-translation-output out --alpha 0.5 --dump-config | grep -E '^(beam-size|alpha) '
