"""The same training in PyTorch, as a peer to measure against: padded batches, fused q/k/v, bf16 autocast, fused Adam.

    python pytorch_transformer.py --size base --precision bf16 --source train.en --target train.de --vocab vocab.spm

Prints target tokens a second (</s> counted, padding not) after the warm-up updates, on a GPU also the most MB of it that tensors
took; the loss, to compare, on standard error. On a GPU: --device cuda --compile, with fused attention and TF32 where float32 is left.
"""
import argparse
import itertools
import random
import sys
import time

import sentencepiece
import torch
from torch import nn
from torch.nn import functional

SIZES = {"tiny": (128, 256, 4, 4, 0.3), "base": (512, 2048, 8, 6, 0.1), "big": (1024, 4096, 16, 6, 0.3)}
# d_model, d_ff, heads, layers a side, dropout
LONGEST = 257  # tokens with </s>, as nmt-train's default --max-length


class MultiHead(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads, self.d_k = heads, d_model // heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, context, hidden):
        """hidden: true where a query must not look, broadcast to [batch, heads, queries, keys]; None: behind itself."""
        d_model = x.shape[-1]
        if context is x:
            q, k, v = self.qkv(x).split(d_model, -1)
        else:
            q = functional.linear(x, self.qkv.weight[:d_model])
            k, v = functional.linear(context, self.qkv.weight[d_model:]).split(d_model, -1)
        q, k, v = (t.view(t.shape[0], t.shape[1], self.heads, self.d_k).transpose(1, 2) for t in (q, k, v))
        if x.is_cuda:
            mask = None if hidden is None else ~hidden
            mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=hidden is None)
        else:  # written out: on a CPU in bf16 the backward pass of PyTorch's fused attention is several times slower
            if hidden is None:
                hidden = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
            scores = (q @ k.transpose(-1, -2)) / self.d_k**0.5
            mixed = scores.masked_fill(hidden, float("-inf")).softmax(-1).to(v.dtype) @ v
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, d_model, d_ff, heads, dropout, decoder):
        super().__init__()
        self.own = MultiHead(d_model, heads)
        self.cross = MultiHead(d_model, heads) if decoder else None
        self.feed = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norms = nn.ModuleList(nn.LayerNorm(d_model, 1e-6) for _ in range(3 if decoder else 2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, hidden, memory=None, memory_hidden=None):
        x = self.norms[0](x + self.dropout(self.own(x, x, hidden)))
        if self.cross is not None:
            x = self.norms[2](x + self.dropout(self.cross(x, memory, memory_hidden)))
        return self.norms[1](x + self.dropout(self.feed(x)))


class Model(nn.Module):
    def __init__(self, vocabulary, d_model, d_ff, heads, layers, dropout):
        super().__init__()
        self.table = nn.Embedding(vocabulary, d_model)
        nn.init.normal_(self.table.weight, std=d_model**-0.5)
        self.encoder = nn.ModuleList(Block(d_model, d_ff, heads, dropout, False) for _ in range(layers))
        self.decoder = nn.ModuleList(Block(d_model, d_ff, heads, dropout, True) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)
        longest = LONGEST + -LONGEST % 8  # batches may be padded to a multiple of 8
        angle = torch.arange(longest)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("positions", torch.stack([angle.sin(), angle.cos()], -1).flatten(1), persistent=False)

    def embed(self, ids):
        return self.table(ids) * self.table.embedding_dim**0.5

    def forward(self, source, target):
        """Mean smoothed loss; 0 pads source and target (id 0 is never trained on)."""
        hidden = (source == 0)[:, None, None]
        x = self.dropout(self.embed(source) + self.positions[: source.shape[1]])
        for block in self.encoder:
            x = block(x, hidden)
        shifted = functional.pad(self.embed(target)[:, :-1], (0, 0, 1, 0))
        y = self.dropout(shifted + self.positions[: target.shape[1]])
        for block in self.decoder:
            y = block(y, None, x, hidden)
        logits = functional.linear(y, self.table.weight)
        return functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=0, label_smoothing=0.1)


def batches(args, vocab):
    lines = [open(path, encoding="utf-8").read().split("\n") for path in (args.source, args.target)]
    pairs = [tuple([*vocab.encode(line), vocab.eos_id()] for line in pair) for pair in zip(*lines)]
    pairs = [p for p in pairs if min(map(len, p)) > 1 and max(map(len, p)) <= LONGEST]
    # Sources of one target length rise, those of the next fall: little padding where a batch spans both.
    pairs.sort(key=lambda p: (len(p[1]), len(p[0]) if len(p[1]) % 2 else -len(p[0])))
    groups, tokens = [[]], [0, 0]
    for pair in pairs:  # up to args.words on each side, as nmt-train --mini-batch-words
        if groups[-1] and any(tokens[side] + len(pair[side]) > args.words for side in (0, 1)):
            groups.append([])
            tokens = [0, 0]
        groups[-1].append(pair)
        tokens = [tokens[side] + len(pair[side]) for side in (0, 1)]
    random.Random(1).shuffle(groups)
    on_gpu = args.device == "cuda"
    multiple = 8 if on_gpu else 1  # what tensor cores like

    def padded(group, side):
        ids = nn.utils.rnn.pad_sequence([torch.tensor(p[side]) for p in group], True)
        ids = functional.pad(ids, (0, -ids.shape[1] % multiple))
        return ids.pin_memory() if on_gpu else ids

    return itertools.cycle([[padded(group, side) for side in (0, 1)] for group in groups])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="base")
    for name in ("source", "target", "vocab"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--words", type=int, default=3000, help="tokens a batch, at most, on either side")
    parser.add_argument("--updates", type=int, default=16)
    parser.add_argument("--warmup", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=("bf16", "f32"), default="bf16")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high" if args.device == "cuda" else "highest")
    synchronize = torch.cuda.synchronize if args.device == "cuda" else lambda: None
    vocab = sentencepiece.SentencePieceProcessor(model_file=args.vocab)
    model = Model(len(vocab), *SIZES[args.size]).to(args.device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    loss_of = torch.compile(model, dynamic=True) if args.compile else model
    tokens, start = 0, 0.0
    for update, (source, target) in zip(range(args.updates), batches(args, vocab)):
        if update == args.warmup:
            synchronize()
            tokens, start = 0, time.perf_counter()
        tokens += int((target != 0).sum())
        if args.device == "cuda":
            source, target = (ids.to("cuda", non_blocking=True) for ids in (source, target))
        with torch.autocast(args.device, torch.bfloat16, enabled=args.precision == "bf16"):
            loss = loss_of(source, target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    synchronize()
    megabytes = f" {torch.cuda.max_memory_allocated() >> 20}" if args.device == "cuda" else ""
    print(f"{tokens / (time.perf_counter() - start):.1f}{megabytes}")
    print(f"loss {loss.item():.4f}", file=sys.stderr)


if __name__ == "__main__":
    main()
