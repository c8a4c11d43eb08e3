#!/usr/bin/env python3
"""Translates a text with CTranslate2 in float32 and prints target tokens a second (with </s>), seconds and peak MB.

The clock covers splitting, translating and joining, not loading the model nor a warm-up of some sentences. Vocabulary: that of
the nmt model of which the folder was made.
"""
import argparse
import json
import pathlib
import resource
import time

import ctranslate2
import sentencepiece


def vocabulary(path):
    """The SentencePiece model inside a safetensors file."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        begin, end = json.loads(file.read(length))["vocab"]["data_offsets"]
        file.seek(8 + length + begin)
        return sentencepiece.SentencePieceProcessor(model_proto=file.read(end - begin))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("folder", "model", "source", "output"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--threads", default="2x1", help="batches at a time x threads on each")
    parser.add_argument("--batch-tokens", type=int, default=1024)
    parser.add_argument("--type", default="float32")
    args = parser.parse_args()
    vocab = vocabulary(args.model)
    workers, threads = map(int, args.threads.split("x"))
    translator = ctranslate2.Translator(
        args.folder, device="cpu", compute_type=args.type, inter_threads=workers, intra_threads=threads)
    lines = pathlib.Path(args.source).read_text(encoding="utf-8").removesuffix("\n").split("\n")

    def translate(lines):
        results = translator.translate_batch(
            vocab.encode(lines, out_type=str), beam_size=args.beam, length_penalty=0, max_batch_size=args.batch_tokens,
            batch_type="tokens", min_decoding_length=0, max_decoding_length=512)
        pieces = [result.hypotheses[0] for result in results]
        return vocab.decode(pieces), sum(len(p) + 1 for p in pieces)

    translate(lines[: 40 * workers])
    start = time.perf_counter()
    translations, tokens = translate(lines)
    seconds = time.perf_counter() - start
    pathlib.Path(args.output).write_text("".join(line + "\n" for line in translations), encoding="utf-8")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{tokens / seconds:.1f} {seconds:.2f} {peak}")


if __name__ == "__main__":
    main()
