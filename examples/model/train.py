#!/usr/bin/env python3
"""Trains the small model that the examples run: kjv.bin (a llama2.c checkpoint) and kjv_tokenizer.bin.

    apt-get install --no-install-recommends python3-torch bible-kjv
    bible -f Gen1:1-Rev22:21 > kjv.txt
    OMP_NUM_THREADS=1 /usr/bin/python3 train.py kjv.txt FOLDER [PHASE]

PHASE above 0 goes on from the checkpoint that the phase before it left in FOLDER.

README.md beside this file says where the text comes from, and what the run that made the files reached.
"""

import collections
import itertools
import math
import pathlib
import re
import struct
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

SEED = 1
VOCAB, DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, POSITIONS = 512, 64, 160, 5, 8, 2, 256
HEAD_DIM = DIM // HEADS
BEGIN = 1
# (steps, sequences a step, tokens a sequence, steps to warm up, factor on the rates at first and at last). Long sequences
# cost most and come last. Each phase begins with fresh moments, so that the checkpoint is all that it needs.
PHASES = [(1000, 32, 96, 100, 1, 1), (380, 32, 96, 20, 1, 0.3), (150, 12, 256, 20, 0.4, 0)]
MATRIX_RATE, MATRIX_MOMENTUM = 0.02, 0.95
OTHER_RATE = 4e-3


# Text -----------------------------------------------------------------------------------------------------------------


def read_chapters(path):
    """[[verse, ...], ...] from lines such as `Ge1:1 In the beginning ...`."""
    chapters = collections.OrderedDict()
    for line in pathlib.Path(path).read_text(encoding="ascii").splitlines():
        reference, verse = line.split(" ", 1)
        chapters.setdefault(reference.split(":")[0], []).append(verse.strip())
    return list(chapters.values())


# Byte pairs are merged within words (a leading space belongs to its word) and within runs of other characters alone, so
# that merging the best pair anywhere, as llama2.c's tokenizer does, comes to the same tokens.
WORD = re.compile(r" ?[A-Za-z]+| ?[^A-Za-z\s]+|\s")


class Tokenizer:
    """Three special tokens, the printable ASCII characters and line feed, then one token a merge, the first the best."""

    def __init__(self, text):
        characters = ["\n"] + [chr(c) for c in range(32, 127)]
        self.tokens = ["<unk>", "\n<s>\n", "\n</s>\n"] + characters
        self.scores = [0.0] * len(self.tokens)
        words = {tuple(word): n for word, n in collections.Counter(WORD.findall(text)).items()}
        while len(self.tokens) < VOCAB:
            pairs = collections.Counter()
            for word, n in words.items():
                for pair in zip(word, word[1:]):
                    pairs[pair] += n
            best = max(pairs, key=lambda pair: (pairs[pair], pair))
            self.scores.append(float(len(characters) + 3 - len(self.tokens) - 1))
            self.tokens.append(best[0] + best[1])
            words = {self.merged(word, best): n for word, n in words.items()}
        self.ids = {token: i for i, token in reversed(list(enumerate(self.tokens)))}
        self.known = {}

    @staticmethod
    def merged(word, pair):
        out, i = [], 0
        while i < len(word):
            both = word[i : i + 2] == pair
            out.append(word[i] + word[i + 1] if both else word[i])
            i += 2 if both else 1
        return tuple(out)

    def encode_word(self, word):
        ids = [self.ids[c] for c in word]
        while True:
            unions = [self.ids.get(self.tokens[a] + self.tokens[b], -1) for a, b in zip(ids, ids[1:])]
            known = [i for i, union in enumerate(unions) if union >= 0]
            if not known:
                return ids
            best = max(known, key=lambda i: self.scores[unions[i]])
            ids[best : best + 2] = [unions[best]]

    def encode(self, text):
        ids = []
        for word in WORD.findall(text):
            if word not in self.known:
                self.known[word] = self.encode_word(word)
            ids += self.known[word]
        return ids

    def save(self, path):
        with open(path, "wb") as file:
            file.write(struct.pack("<i", max(len(token) for token in self.tokens)))
            for token, score in zip(self.tokens, self.scores):
                file.write(struct.pack("<fi", score, len(token)) + token.encode("ascii"))


class Verses:
    """A stream of tokens, and where sequences may begin: begin token, space, verse, line feed, next verse ..."""

    def __init__(self, chapters, tokenizer):
        verses = list(itertools.chain.from_iterable(chapters))
        self.first = [[BEGIN] + tokenizer.encode(" " + verse) for verse in verses]
        self.next, stream = [], []
        for verse in verses:
            stream += tokenizer.encode("\n" + verse)
            self.next.append(len(stream))  # where the verse after this one begins
        self.stream = torch.tensor(stream)

    def sequence(self, verse, length):
        """`length` tokens and the one after them."""
        first = torch.tensor(self.first[verse][: length + 1])
        rest = self.stream[self.next[verse] : self.next[verse] + length + 1 - len(first)]
        return torch.cat([first, rest])

    def fits(self, verse, length):
        return len(self.first[verse]) + len(self.stream) - self.next[verse] > length

    def batch(self, sequences, length, generator):
        verses = [int(i) for i in torch.randint(len(self.first), (2 * sequences,), generator=generator)]
        chosen = [verse for verse in verses if self.fits(verse, length)][:sequences]
        return torch.stack([self.sequence(verse, length) for verse in chosen])


# Model ----------------------------------------------------------------------------------------------------------------


def normalized(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight


def rotated(x, cos, sin):
    """x [batch, heads, tokens, head_dim]: pairs of neighbours."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        linear = lambda inputs, outputs: nn.Linear(inputs, outputs, bias=False)
        self.attention_norm, self.feed_forward_norm = nn.Parameter(torch.ones(DIM)), nn.Parameter(torch.ones(DIM))
        self.query, self.output = linear(DIM, DIM), linear(DIM, DIM)
        self.key, self.value = linear(DIM, KV_HEADS * HEAD_DIM), linear(DIM, KV_HEADS * HEAD_DIM)
        self.gate, self.up, self.down = linear(DIM, HIDDEN), linear(DIM, HIDDEN), linear(HIDDEN, DIM)

    def forward(self, x, cos, sin, hidden):
        batch, tokens, _ = x.shape
        n = normalized(x, self.attention_norm)
        heads = lambda projected: projected.view(batch, tokens, -1, HEAD_DIM).transpose(1, 2)
        q, k, v = rotated(heads(self.query(n)), cos, sin), rotated(heads(self.key(n)), cos, sin), heads(self.value(n))
        # Queries of a group lie below each other, so that a group's keys are not repeated.
        q = q.reshape(batch, KV_HEADS, -1, HEAD_DIM) * HEAD_DIM**-0.5
        weights = (q @ k.transpose(-1, -2) + hidden).softmax(-1)
        context = (weights @ v).view(batch, HEADS, tokens, HEAD_DIM).transpose(1, 2).reshape(batch, tokens, DIM)
        x = x + self.output(context)
        n = normalized(x, self.feed_forward_norm)
        return x + self.down(F.silu(self.gate(n)) * self.up(n))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(VOCAB, DIM))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.Parameter(torch.ones(DIM))
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                # Smaller where it adds to the residual stream, and for logits that begin small.
                last = name.endswith(("output.weight", "down.weight"))
                factor = (2 * LAYERS) ** -0.5 if last else 0.5 if name == "embedding" else 1
                nn.init.normal_(parameter, 0, DIM**-0.5 * factor)
        angle = torch.arange(POSITIONS)[:, None] * 1e4 ** (-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
        self.cos, self.sin = angle.cos(), angle.sin()

    def forward(self, ids):
        tokens = ids.shape[1]
        hidden = torch.full((tokens, tokens), -math.inf).triu(1).repeat(HEADS // KV_HEADS, 1)
        x = self.embedding[ids]
        for block in self.blocks:
            x = block(x, self.cos[:tokens], self.sin[:tokens], hidden)
        return normalized(x, self.norm) @ self.embedding.T

    def sections(self):
        """In the order of llama2.c's headerless version 0."""
        each = lambda pick: [pick(block) for block in self.blocks]
        sections = [self.embedding, *each(lambda b: b.attention_norm)]
        for name in ["query", "key", "value", "output"]:
            sections += each(lambda b: getattr(b, name).weight)
        sections += each(lambda b: b.feed_forward_norm)
        for name in ["gate", "down", "up"]:
            sections += each(lambda b: getattr(b, name).weight)
        return sections + [self.norm, self.cos, self.sin]

    def save(self, path):
        with open(path, "wb") as file:
            file.write(struct.pack("<7i", DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, POSITIONS))
            for section in self.sections():
                file.write(section.detach().contiguous().numpy().tobytes())

    @torch.no_grad()
    def load(self, path):
        numbers = torch.frombuffer(bytearray(pathlib.Path(path).read_bytes()[28:]), dtype=torch.float32)
        for section, values in zip(self.sections(), numbers.split([s.numel() for s in self.sections()])):
            section.copy_(values.view(section.shape))


class Muon:
    """Momentum whose matrices are brought near orthogonal ones by five Newton-Schulz steps (Jordan et al. 2024)."""

    def __init__(self, matrices):
        shapes = collections.defaultdict(list)
        for matrix in matrices:
            shapes[matrix.shape].append(matrix)
        self.groups = [(group, torch.zeros(len(group), *shape)) for shape, group in shapes.items()]

    @torch.no_grad()
    def step(self, rate):
        for group, momentum in self.groups:
            gradient = torch.stack([matrix.grad for matrix in group])
            momentum.mul_(MATRIX_MOMENTUM).add_(gradient)
            update = gradient + MATRIX_MOMENTUM * momentum
            rows, columns = update.shape[1:]
            update = self.orthogonal(update if rows <= columns else update.transpose(1, 2))
            update = update if rows <= columns else update.transpose(1, 2)
            for matrix, change in zip(group, update * max(1, rows / columns) ** 0.5):
                matrix.mul_(1 - rate * 0.02).sub_(change, alpha=rate)

    @staticmethod
    def orthogonal(x):
        x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
        for _ in range(5):
            square = x @ x.transpose(1, 2)
            x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
        return x


# Training -------------------------------------------------------------------------------------------------------------


def loss_of(model, sequences):
    logits = model(sequences[:, :-1])
    return F.cross_entropy(logits.reshape(-1, VOCAB), sequences[:, 1:].reshape(-1))


def mean_loss(model, verses):
    """Over 64 sequences of all 256 positions that begin 16 verses apart."""
    begins = [verse for verse in range(0, len(verses.first), 16) if verses.fits(verse, POSITIONS)][:64]
    with torch.no_grad():
        losses = [loss_of(model, verses.sequence(verse, POSITIONS)[None]) for verse in begins]
    return float(sum(losses)) / len(losses)


def main(text, folder, start=0):
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    chapters = read_chapters(text)
    held_out = chapters[10::20]
    kept = [chapter for i, chapter in enumerate(chapters) if i % 20 != 10]
    tokenizer = Tokenizer("\n".join(itertools.chain.from_iterable(kept)))
    tokenizer.save(f"{folder}/kjv_tokenizer.bin")
    train, validation = Verses(kept, tokenizer), Verses(held_out, tokenizer)
    characters = sum(len(verse) + 1 for chapter in held_out for verse in chapter)
    per_character = len(validation.stream) / characters
    model = Model()
    if start > 0:
        model.load(f"{folder}/kjv.bin")
    count = sum(p.numel() for p in model.parameters())
    print(f"{count} parameters; {len(train.stream)} training tokens, {len(validation.stream)} held out, "
          f"{1 / per_character:.3f} characters a token; torch {torch.__version__}", flush=True)

    matrices = [p for block in model.blocks for p in block.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if not any(p is matrix for matrix in matrices)]
    for phase, (steps, sequences, length, warm_up, first, last) in enumerate(PHASES):
        if phase < start:
            continue
        muon, adam = Muon(matrices), torch.optim.Adam(others, betas=(0.9, 0.98))
        generator = torch.Generator().manual_seed(SEED + phase)
        for step in range(steps):
            rate = min(1, (step + 1) / warm_up) * (first + (last - first) * step / steps)
            adam.param_groups[0]["lr"] = rate * OTHER_RATE
            loss = loss_of(model, train.batch(sequences, length, generator))
            model.zero_grad(set_to_none=True)
            loss.backward()
            muon.step(rate * MATRIX_RATE)
            adam.step()
            if (step + 1) % 50 == 0:
                print(f"phase {phase}, step {step + 1}: {loss.item():.3f}, {time.process_time():.0f} CPU s", flush=True)
        model.save(f"{folder}/kjv.bin")
        held, seen = mean_loss(model, validation), mean_loss(model, train)
        print(f"phase {phase}: {held:.4f} nats a token held out ({held * per_character / math.log(2):.4f} bits "
              f"a character), {seen:.4f} on training text", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0)
