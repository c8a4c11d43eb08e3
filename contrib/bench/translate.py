#!/usr/bin/env python3
"""Translates a text with nmt-decode, CTranslate2 or Marian and prints how fast that went, by the same clock and count for both.

Target tokens a second, seconds, peak MB; with --one-at-a-time target tokens a second, median and 99th percentile of a
sentence's milliseconds, peak MB. The clock covers splitting, translating and joining, from lines in to lines out, not
loading nor a warm-up. Tokens are the translations' pieces in the model's vocabulary with one </s> each. Memory is the peak of
the process that translates: nmt-decode, or this one with a peer in it.
"""
import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import threading
import time

import sentencepiece

LONGEST = 512  # tokens that CTranslate2 writes, unless --max-length-extra says


class Nmt:
    """nmt-decode behind a pipe."""

    def __init__(self, args, vocab):
        workers, threads = args.threads
        command = [args.nmt_decode, "--quiet", "--model", args.model, "--precision", args.precision, "--beam-size", args.beam,
                   "--alpha", 0, "--cpu-threads", workers * threads, "--devices", "0" if args.device == "cuda" else "cpu"]
        if args.one_at_a_time:
            command += ["--maxi-batch", 1]
        if args.shortlist:
            command += ["--shortlist", args.shortlist]
        if args.max_length_extra is not None:
            command += ["--max-length-extra", args.max_length_extra]
        self.process = subprocess.Popen(map(str, command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def write(self, lines):
        self.process.stdin.write("".join(line + "\n" for line in lines).encode())
        self.process.stdin.flush()

    def translate(self, lines):
        if len(lines) == 1:
            self.write(lines)
        else:  # a thread of its own: a pipe does not hold a whole text
            threading.Thread(target=self.write, args=(lines,)).start()
        translations = [self.process.stdout.readline() for _ in lines]
        if not translations[-1]:
            sys.exit("translate.py: nmt-decode ended before the text did")
        return [line.decode().removesuffix("\n") for line in translations]

    def finish(self):
        """Ends, and returns the peak of memory in MB."""
        peak = peak_mb(self.process.pid)
        self.process.stdin.close()
        self.process.wait()
        return peak


class CTranslate2:
    def __init__(self, args, vocab):
        import ctranslate2

        workers, threads = args.threads
        self.vocab, self.beam, self.use_vmap = vocab, args.beam, bool(args.shortlist)
        self.source_tokens, self.extra = args.source_tokens, args.max_length_extra
        self.translator = ctranslate2.Translator(
            args.folder, device=args.device, compute_type=args.precision, inter_threads=workers, intra_threads=threads)

    def translate(self, lines):
        sources = self.vocab.encode(lines, out_type=str)
        longest = LONGEST if self.extra is None else max(map(len, sources)) + self.extra
        results = self.translator.translate_batch(
            sources, beam_size=self.beam, length_penalty=0, max_batch_size=self.source_tokens,
            batch_type="tokens", min_decoding_length=1, max_decoding_length=longest, use_vmap=self.use_vmap)
        return self.vocab.decode([result.hypotheses[0] for result in results])

    def finish(self):
        return peak_mb("self")


class Marian:
    def __init__(self, args, vocab):
        import pymarian

        workers, threads = args.threads
        if threads != 1:
            sys.exit("translate.py: Marian translates a batch on one thread")
        model = "model.bin" if args.precision == "int8" else "model.npz"
        batches = "--mini-batch 1" if args.one_at_a_time else (
            f"--mini-batch 1000 --mini-batch-words {args.source_tokens} --maxi-batch 1000 --maxi-batch-sort src")
        self.translator = pymarian.Translator(
            f"--models {args.folder}/{model} --vocabs {args.folder}/vocab.spm {args.folder}/vocab.spm --beam-size {args.beam} "
            f"--cpu-threads {workers} {batches} --quiet --quiet-translation")

    def translate(self, lines):
        return self.translator.translate(lines)

    def finish(self):
        return peak_mb("self")


def vocabulary(path):
    """The SentencePiece model inside a safetensors file."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        begin, end = json.loads(file.read(length))["vocab"]["data_offsets"]
        file.seek(8 + length + begin)
        return sentencepiece.SentencePieceProcessor(model_proto=file.read(end - begin))


def peak_mb(process):
    return int(re.search(r"VmHWM:\s*(\d+) kB", pathlib.Path(f"/proc/{process}/status").read_text())[1]) // 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=("nmt", "CTranslate2", "Marian"))
    for name in ("model", "source", "output", "precision"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--nmt-decode", help="the executable")
    parser.add_argument("--folder", help="the model as the peer has it")
    parser.add_argument("--shortlist", help="of nmt-vocab; the folder holds it as a vocabulary map")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--threads", type=lambda text: tuple(map(int, text.split("x"))), default=(1, 2),
                        help="batches at a time x threads on each; nmt works on one with all of them")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: the first GPU")
    parser.add_argument("--source-tokens", type=int, default=1024, help="of a batch of the peer")
    parser.add_argument("--max-length-extra", type=int,
                        help="tokens of a translation beyond its source; in CTranslate2 beyond the longest source")
    parser.add_argument("--one-at-a-time", action="store_true", help="hand over a sentence when the one before is translated")
    args = parser.parse_args()
    lines = pathlib.Path(args.source).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    vocab = vocabulary(args.model)
    program = {"nmt": Nmt, "CTranslate2": CTranslate2, "Marian": Marian}[args.program](args, vocab)

    def run(lines):
        """Translations, and the seconds of each call."""
        translations, seconds = [], []
        for call in [[line] for line in lines] if args.one_at_a_time else [lines]:
            start = time.perf_counter()
            translations += program.translate(call)
            seconds.append(time.perf_counter() - start)
        return translations, seconds

    run(lines[: 20 if args.one_at_a_time else 200])
    translations, seconds = run(lines)
    peak = program.finish()
    pathlib.Path(args.output).write_text("".join(line + "\n" for line in translations), encoding="utf-8")
    rate = sum(len(pieces) + 1 for pieces in vocab.encode(translations)) / sum(seconds)
    if args.one_at_a_time:
        milliseconds = sorted(1000 * s for s in seconds)
        percentile = milliseconds[math.ceil(0.99 * len(milliseconds)) - 1]
        print(f"{rate:.1f} {statistics.median(milliseconds):.2f} {percentile:.2f} {peak}")
    else:
        print(f"{rate:.1f} {sum(seconds):.2f} {peak}")


if __name__ == "__main__":
    main()
