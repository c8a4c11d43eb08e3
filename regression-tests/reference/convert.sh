# contrib/convert: a model that CTranslate2 translates as nmt does, one of the shapes that Marian has, and what they cannot have.
. "$NMT_ROOT/regression-tests/python.bash" ctranslate2
. "$NMT_ROOT/regression-tests/train/tiny.bash"
convert() { "$python" "$NMT_ROOT/contrib/convert/to_$1.py" "${@:2}" 2>&1 | sed 's/ctranslate2 [0-9.]*/ctranslate2 N/'; }
train --model m.safetensors --after 100u --learn-rate 0.01 --lr-warmup 20 2> /dev/null
convert ctranslate2 m.safetensors folder
head -n 20 data/dev.en > few
"$NMT_BIN/nmt-decode" --model m.safetensors --alpha 0 --precision f32 --quiet --input few --output ours
"$NMT_BIN/nmt-vocab" encode --vocab vocab.spm < few > pieces
"$python" - << 'end' > theirs.pieces
import ctranslate2
lines = [line.split() for line in open("pieces", encoding="utf-8").read().splitlines()]
translator = ctranslate2.Translator("folder", compute_type="float32", inter_threads=1, intra_threads=1)
for result in translator.translate_batch(lines, beam_size=4, length_penalty=0, max_decoding_length=200):
    print(" ".join(result.hypotheses[0]))
end
"$NMT_BIN/nmt-vocab" decode --vocab vocab.spm < theirs.pieces > theirs
cmp ours theirs && echo "the same translations"
convert marian m.safetensors marian
"$python" - << 'end'
import json
import numpy as np
model = np.load("marian/model.npz")
options = json.loads(bytes(model["special:model.yml"]).rstrip(b"\0"))
print(len(model.files), "arrays,", model["Wemb"].shape, options["enc-depth"], "+", options["dec-depth"], "layers")
end
for options in "--transformer-attention-window 3" "--transformer-attention additive" "--transformer-ffn-activation gelu" \
  "--transformer-encoder-layer convolution" "--transformer-dim-key 4"; do
  rm -f m.*
  train --model m.safetensors $options --after 1u 2> /dev/null
  echo "$options: $(convert ctranslate2 m.safetensors refused)"
done
rm -f m.*
train --model m.safetensors --transformer-train-position-embeddings --after 1u 2> /dev/null
echo "--transformer-train-position-embeddings: $(convert marian m.safetensors refused)"
[ -e refused ] || echo "nothing is written of what is refused"
