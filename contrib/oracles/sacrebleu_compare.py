#!/usr/bin/env python3
"""Compares nmt-eval with sacreBLEU 2 to the last printed digit, on random and awkward text.

    sacrebleu_compare.py PATH_OF_NMT_EVAL [--seed N] [--rounds N] [--lines N]

Every metric, tokeniser and option, with one to three references, for the corpus and for each sentence. Only the
signatures' version may differ; intervals and p-values, which depend on the random numbers, may differ a little. Prints
one line for each difference and a summary; ends with 1 where there is one.
"""

import argparse
import itertools
import json
import logging
import pathlib
import random
import re
import subprocess
import sys
import tempfile

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

# Unicode up to version 9: older than any library's tables.
WORDS = """
a the of in to it is was cat dog house Green RED under over tree's don't it's 1990's l'eau aujourd'hui
naïve Straße STRASSE Übermut ÄÖÜ façade İstanbul ΟΔΥΣΣΕΥΣ ΣΑΣ. Σ ς привет Ёлка Ǆ ﬁne ŉ
e\u0301 a\u0308\u0323 n\u0303o \u0301 x\u20dd
东京 中文字符 漢字かな交じり カタカナ ひらがな 한국어 㐀㐁 ㇀ ⺀ ㌀ 豈 ︰ ㈠ 、 。 「引用」 ・ ， ． ？ ！ （全角） ： ； ＂ ｡ 〈〉 〜
😀 👍🏽 🇩🇪 ❤️ ☃ 👨‍👩‍👧
1 22 3,000 3.14 1,234.56 .5 5. 5, ,5 -7 10-20 3-D x-1 1- --2 1.2.3 1,2,3 ½ ² Ⅳ ٣٤ 12.a a.12 7% 50€ $9.99 #1 @x
state-of-the-art rich-text a-b a-b-c -x x- - -- – — ... .. . , ; : ? ! ?! ( ) (hi) [x] {y} <z> / \\ | ~ ^ _ ` ' " '' `` '"
„zitiert“ «guillemets» “curly” ‘single’ ¿qué? ¡ay! … § © ± × ÷ ≤ ∑ → ° µ £ ¥ ¬ ¨ ´ ˆ
&amp; &quot; &lt; &gt; &amp;quot; &amp;lt;b&gt; &apos; &#39; & AT&T <skipped> x<skipped>y http://x.org/a?b=c&d=e u.s. e.g. z.B. Dr.
""".split()
SPACES = [" "] * 12 + ["  ", "\t", "\u00a0", "\u3000", "\u2009", "\u0085", "\u2028", "\u200b", "\r", "\x1c", "\x0b"]
SMALL = ["the", "a", "to", "b", "c"]  # many repetitions, so many shifts


def sentence(rng):
    kind = rng.random()
    if kind < 0.06:
        return ""
    if kind < 0.14:
        return rng.choice(WORDS)
    words = SMALL if kind < 0.4 else WORDS[:14] if kind < 0.5 else WORDS
    length = rng.randint(60, 130) if kind > 0.97 else rng.randint(2, 25)
    text = rng.choice(["", "", "", " "])
    for _ in range(length):
        text += rng.choice(words) + (rng.choice(SPACES) if rng.random() < 0.9 else "")
    return text


def noisy(rng, text):
    """A translation that shares much with the text: words dropped, doubled, replaced, blocks moved, case changed."""
    words = text.split(" ")
    for _ in range(rng.randint(0, 4)):
        i, edit = rng.randrange(len(words) + 1), rng.randrange(6)
        if edit == 0:
            del words[i : i + rng.randint(1, 3)]
        elif edit == 1:
            words.insert(i, rng.choice(WORDS))
        elif edit == 2:
            block = words[i : i + rng.randint(1, 12)]
            del words[i : i + len(block)]
            at = rng.randrange(len(words) + 1)
            words[at:at] = block
        elif edit == 3:
            words[i:i] = words[i : i + 2]
        elif edit == 4:
            words = [w.upper() if rng.random() < 0.2 else w for w in words]
        else:
            words[i : i + 1] = [rng.choice(WORDS)]
    return " ".join(words)


def corpus(rng, lines):
    """Hypotheses of two systems and three lists of references, as sacreBLEU's command line would read them."""
    references = [[sentence(rng) for _ in range(lines)]]
    for _ in range(2):
        references.append([noisy(rng, t) if rng.random() < 0.8 else sentence(rng) for t in references[0]])
    systems = [[noisy(rng, t) if rng.random() < 0.9 else sentence(rng) for t in references[0]] for _ in range(2)]
    strip = lambda texts: [t.rstrip() for t in texts]
    return [strip(s) for s in systems], [strip(r) for r in references]


def configurations():
    """Yields (subcommand, command-line options, keyword arguments of sacreBLEU's metric)."""
    smoothing = [("exp", None), ("floor", None), ("floor", 0.3), ("add-k", None), ("add-k", 0.5), ("none", None)]
    for tokenize, lowercase, (method, value) in itertools.product(["13a", "intl", "zh", "none", "char"], [0, 1], smoothing):
        options = ["--tokenize", tokenize, "--smooth-method", method] + ["--lowercase"] * lowercase
        options += [] if value is None else ["--smooth-value", str(value)]
        yield "bleu", options, dict(tokenize=tokenize, lowercase=bool(lowercase), smooth_method=method,
                                    smooth_value=value)
    yield "bleu", ["--effective-order"], dict(effective_order=True)
    for chars, words, (beta, lowercase, space, eps) in itertools.product(
        [1, 6], [0, 2], [(2, 0, 0, 0), (1, 1, 0, 0), (3, 0, 1, 0), (2, 0, 0, 1), (2, 1, 1, 1)]
    ):
        options = ["--char-order", str(chars), "--word-order", str(words), "--beta", str(beta)]
        options += ["--lowercase"] * lowercase + ["--whitespace"] * space + ["--eps-smoothing"] * eps
        yield "chrf", options, dict(char_order=chars, word_order=words, beta=beta, lowercase=bool(lowercase),
                                    whitespace=bool(space), eps_smoothing=bool(eps))
    names = ["normalized", "no_punct", "asian_support", "case_sensitive"]
    for flags in itertools.product([False, True], repeat=4):
        chosen = dict(zip(names, flags))
        yield "ter", ["--" + n.replace("_", "-") for n, on in chosen.items() if on], chosen


class Comparison:
    def __init__(self, tool, folder):
        self.tool, self.folder = tool, pathlib.Path(folder)
        self.checked, self.differences = 0, 0

    def write(self, name, lines):
        path = self.folder / name
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")
        return str(path)

    def run(self, *arguments):
        done = subprocess.run([self.tool, *arguments], capture_output=True, encoding="utf-8")
        if done.returncode != 0:
            sys.exit(f"{' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
        return re.sub(r"version:[^| \"]+", "version:*", done.stdout).split("\n")[:-1]

    def equal(self, what, expected, printed):
        self.checked += 1
        if expected != printed:
            self.differences += 1
            print(f"{what}\n  sacreBLEU: {expected}\n  nmt-eval:  {printed}")

    def near(self, what, expected, printed, tolerance):
        self.checked += 1
        if not abs(expected - printed) <= tolerance:
            self.differences += 1
            print(f"{what}: sacreBLEU {expected}, nmt-eval {printed}, more than {tolerance} apart")


def line_of(score, metric, width):
    return re.sub(r"version:[^| \"]+", "version:*", score.format(width, False, metric.get_signature().format()))


def compare_scores(comparison, rng, lines):
    systems, references = corpus(rng, lines)
    hypothesis = comparison.write("hypothesis", systems[0])
    files = [comparison.write(f"reference{r}", lines) for r, lines in enumerate(references)]
    classes = {"bleu": BLEU, "chrf": CHRF, "ter": TER}
    for command, options, keywords in configurations():
        count = rng.randint(1, 3)
        common = [command, *options, "--hypothesis", hypothesis, "--reference", *files[:count]]
        what = " ".join([command, *options, f"nrefs {count}"])
        width = rng.choice([1, 2, 4, 9])
        metric = classes[command](**keywords)
        score = metric.corpus_score(systems[0], references[:count])
        comparison.equal(what, line_of(score, metric, width), comparison.run(*common, "--width", str(width))[0])

        if command == "bleu":
            metric = BLEU(**{**keywords, "effective_order": True})
        printed = comparison.run(*common, "--sentence", "--width", str(width))
        comparison.equal(what + " lines", len(systems[0]), len(printed))
        for number, (own, *others) in enumerate(zip(systems[0], *references[:count])):
            expected = line_of(metric.sentence_score(own, others), metric, width)
            comparison.equal(f"{what} line {number + 1}", expected, printed[number])


def compare_tests(comparison, rng, lines):
    """JSON, intervals and the paired test."""
    systems, references = corpus(rng, lines)
    files = [comparison.write(f"system{s}", lines) for s, lines in enumerate(systems)]
    reference = comparison.write("reference", references[0])
    for command, metric in [("bleu", BLEU()), ("chrf", CHRF()), ("ter", TER())]:
        score = metric.corpus_score(systems[0], references[:1], n_bootstrap=1000)
        expected = json.loads(score.format(2, False, metric.get_signature().format(), is_json=True))
        common = [command, "--reference", reference, "--width", "2", "--json"]
        printed = json.loads("\n".join(comparison.run(*common, "--hypothesis", files[0], "--confidence")))
        spread = expected["confidence_var"] / 4
        comparison.equal(command + " keys", list(expected), list(printed))
        for key in expected:
            if key in ("confidence_mean", "confidence_var"):
                comparison.near(f"{command} {key}", expected[key], printed[key], spread)
            elif key not in ("confidence", "signature", "version"):
                comparison.equal(f"{command} {key}", expected[key], printed[key])

        fresh = type(metric)(references=references[:1])
        test = PairedTest([("one", systems[0]), ("two", systems[1])], {command: fresh}, None, test_type="bs")
        (results,) = [values for name, values in test()[1].items() if name != "System"]
        printed = json.loads("\n".join(comparison.run(*common, "--hypothesis", *files, "--paired")))
        for result, own in zip(results, printed):
            comparison.equal(f"{command} paired score", f"{result.score:.2f}", f"{own['score']:.2f}")
            comparison.near(f"{command} paired mean", result.mean, own["confidence_mean"], result.ci / 4)
            comparison.near(f"{command} paired interval", result.ci, own["confidence_var"], result.ci / 4)
            comparison.equal(f"{command} paired test made", result.p_value is not None, "p_value" in own)
            if result.p_value is not None:
                comparison.near(f"{command} p-value", result.p_value, own["p_value"], 0.1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("nmt_eval")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--lines", type=int, default=80)
    args = parser.parse_args()
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)
    rng = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(args.nmt_eval, folder)
        for _ in range(args.rounds):
            compare_scores(comparison, rng, args.lines)
            compare_tests(comparison, rng, 4 * args.lines)
    print(f"{comparison.checked} comparisons, {comparison.differences} differences")
    sys.exit(comparison.differences > 0)


if __name__ == "__main__":
    main()
