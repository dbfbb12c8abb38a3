#!/usr/bin/env python3
"""Trains the small Llama of this example, and the tokenizer it reads and writes with.

Usage: train.py [--corpus corpus.txt] [--out out] [--device cuda|cpu] [--steps N] [--minutes M]

Without --corpus the text is made by corpus.py, which needs apt-get. The result is a directory as
transformers saves one (config.json, model.safetensors in bf16, tokenizer.json, ...) and training.json
with the numbers of the run.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import time
from copy import deepcopy
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

BOS = "<|begin_of_text|>"
EOS = "<|end_of_text|>"
VOCABULARY = 2048
CONTEXT = 512

# Held-out chapters give the reported number and are looked at once. The checkpoint is chosen on
# others (validation), for a number that the choice was made by would flatter the model.
HELD_OUT = 0.05
VALIDATION = 0.02

Document = tuple[str, str]


def read_corpus(path: Path) -> list[Document]:
    documents = []
    for part in path.read_text().split("\f")[1:]:
        source, text = part.split("\n", 1)
        documents.append((source, text.strip()))
    return documents


def split(
    documents: list[Document], seed: int
) -> tuple[list[Document], list[Document], list[Document]]:
    """Training, validation and held-out chapters; each source gives the same share of its own."""
    train: list[Document] = []
    validation: list[Document] = []
    held_out: list[Document] = []
    for source in sorted({source for source, _ in documents}):
        chapters = [document for document in documents if document[0] == source]
        random.Random(seed).shuffle(chapters)
        held = max(1, round(len(chapters) * HELD_OUT))
        valid = max(1, round(len(chapters) * VALIDATION))
        held_out += chapters[:held]
        validation += chapters[held : held + valid]
        train += chapters[held + valid :]
    return train, validation, held_out


def train_tokenizer(texts: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[BOS, EOS],
        # All 256 bytes are in the vocabulary, so that any UTF-8 text can be encoded.
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A",
        pair=f"{BOS} $A {BOS} $B",
        special_tokens=[(BOS, tokenizer.token_to_id(BOS))],
    )
    return tokenizer


def encode(tokenizer: Tokenizer, documents: list[Document]) -> list[list[int]]:
    bos, eos = tokenizer.token_to_id(BOS), tokenizer.token_to_id(EOS)
    encodings = tokenizer.encode_batch([text for _, text in documents], add_special_tokens=False)
    return [[bos, *encoding.ids, eos] for encoding in encodings]


def make_model(tokenizer: Tokenizer) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=192,
        num_hidden_layers=6,
        # 8 heads, so that they divide among 1, 2, 4 and 8 ranks.
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=24,
        intermediate_size=512,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
        bos_token_id=tokenizer.token_to_id(BOS),
        eos_token_id=tokenizer.token_to_id(EOS),
        use_cache=True,
    )
    return LlamaForCausalLM(config)


def add_dropout(model: LlamaForCausalLM, rate: float) -> list[torch.utils.hooks.RemovableHandle]:
    """Drops parts of what each block adds to the residual stream."""

    # Llama has no such dropout of its own, yet a text this small is read many times over.
    def drop(module: torch.nn.Module, _inputs: object, output: torch.Tensor) -> torch.Tensor:
        return F.dropout(output, rate, module.training)

    places = [model.model.embed_tokens]
    for layer in model.model.layers:
        places += [layer.self_attn.o_proj, layer.mlp.down_proj]
    return [place.register_forward_hook(drop) for place in places]


def make_optimizer(
    model: LlamaForCausalLM, rate: float, decay: float, fused: bool
) -> torch.optim.AdamW:
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), fused=fused)


@torch.no_grad()
def nats(model: LlamaForCausalLM, documents: list[list[int]], batch: int = 64) -> list[float]:
    """Per document: -log of the probability of its tokens, the end of text included."""
    device = next(model.parameters()).device
    # Windows overlap by half, and only tokens not yet counted count: each is predicted from at
    # least half a window of what precedes it (where that much does), as in decoding.
    windows = []
    for index, ids in enumerate(documents):
        counted = 1
        begin = 0
        while counted < len(ids):
            end = min(begin + CONTEXT, len(ids))
            windows.append((index, begin, counted, end))
            counted = end
            begin += CONTEXT // 2
    windows.sort(key=lambda window: window[3] - window[1])
    totals = [0.0] * len(documents)
    for at in range(0, len(windows), batch):
        group = windows[at : at + batch]
        width = max(end - begin for _, begin, _, end in group)
        inputs = torch.zeros(len(group), width, dtype=torch.long)
        labels = torch.full((len(group), width), -100)
        for row, (index, begin, counted, end) in enumerate(group):
            inputs[row, : end - begin] = torch.tensor(documents[index][begin:end])
            labels[row, counted - begin : end - begin] = torch.tensor(documents[index][counted:end])
        # Rows are padded at their ends only, which a causal model does not see.
        logits = model(input_ids=inputs.to(device), use_cache=False).logits[:, :-1].float()
        losses = F.cross_entropy(
            logits.reshape(-1, logits.shape[-1]),
            labels[:, 1:].reshape(-1).to(device),
            reduction="none",
        )
        sums = losses.view(len(group), -1).double().sum(1).tolist()
        for (index, *_), total in zip(group, sums, strict=True):
            totals[index] += total
    return totals


def bits_per_byte(
    model: LlamaForCausalLM, tokenizer: Tokenizer, documents: list[Document]
) -> dict[str, float]:
    was_training = model.training
    model.eval()
    totals = nats(model, encode(tokenizer, documents))
    model.train(was_training)
    result = {}
    for name in ["all", *sorted({source for source, _ in documents})]:
        chosen = [i for i, (source, _) in enumerate(documents) if name in ("all", source)]
        size = sum(len(documents[i][1].encode()) for i in chosen)
        result[name] = sum(totals[i] for i in chosen) / math.log(2) / size
    return result


def train(
    model: LlamaForCausalLM,
    tokenizer: Tokenizer,
    documents: list[Document],
    validation: list[Document],
    args: argparse.Namespace,
) -> tuple[LlamaForCausalLM, dict[str, object]]:
    device = torch.device(args.device)
    cuda = device.type == "cuda"
    chapters = encode(tokenizer, documents)
    generator = torch.Generator().manual_seed(args.seed)
    length = sum(len(ids) for ids in chapters)
    print(f"{length} training tokens, {args.batch * CONTEXT} tokens in a step", flush=True)

    model.to(device).train()
    average = deepcopy(model).eval().requires_grad_(False)
    hooks = add_dropout(model, args.dropout)
    optimizer = make_optimizer(model, args.rate, args.decay, fused=cuda)
    warmup = max(1, min(400, args.steps // 10))
    offsets = torch.arange(CONTEXT + 1)
    best: tuple[float, int, dict[str, torch.Tensor]] | None = None
    log = []
    began = time.monotonic()
    stream = torch.empty(0, dtype=torch.long)
    starts = torch.empty(0, dtype=torch.long)
    step = 0
    training_loss = math.nan
    while True:
        # Chapters are put into another order now and then, so that no end of text foretells
        # how the next one begins.
        if step % 200 == 0:
            order = torch.randperm(len(chapters), generator=generator).tolist()
            flat = [token for index in order for token in chapters[index]]
            stream = torch.tensor(flat)
            starts = (stream[: -CONTEXT - 1] == tokenizer.token_to_id(BOS)).nonzero().view(-1)
            stream = stream.to(device)
        elapsed = (time.monotonic() - began) / 60
        progress = max(step / args.steps, elapsed / args.minutes)
        if step % args.check == 0 or progress >= 1:
            scores = bits_per_byte(average, tokenizer, validation)
            log.append(
                {"step": step, "minutes": round(elapsed, 2), "validation": round(scores["all"], 4)}
            )
            print(
                f"step {step}, {elapsed:.1f} min: training loss {training_loss:.4f}, "
                f"validation {scores['all']:.4f} bits per byte",
                flush=True,
            )
            if best is None or scores["all"] < best[0]:
                best = (
                    scores["all"],
                    step,
                    {k: v.detach().clone() for k, v in average.state_dict().items()},
                )
            if progress >= 1:
                break
        for group in optimizer.param_groups:
            cosine = 0.5 * (1 + math.cos(math.pi * progress))
            group["lr"] = args.rate * min((step + 1) / warmup, 0.02 + 0.98 * cosine)

        begin = torch.randint(len(stream) - CONTEXT - 1, (args.batch,), generator=generator)
        # Decoding starts at a chapter's begin, which random windows would seldom start with.
        chosen = torch.randint(len(starts), (args.batch // 8,), generator=generator)
        begin[: args.batch // 8] = starts[chosen]
        windows = stream[(begin[:, None] + offsets).to(device, non_blocking=True)]
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=cuda):
            logits = model(input_ids=windows[:, :-1], use_cache=False).logits
        loss = F.cross_entropy(logits.float().view(-1, VOCABULARY), windows[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        # The average is short while the weights still move fast.
        weight = 1 - min(0.999, (step + 1) / (step + 10))
        with torch.no_grad():
            torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), weight)
        if step % args.check == 0 or step == 1 or step == args.steps:
            training_loss = loss.item()
        elif step % 100 == 0 and not math.isfinite(loss.item()):
            sys.exit(f"step {step}: the loss is not finite")
    for hook in hooks:
        hook.remove()
    average.load_state_dict(best[2])
    print(f"kept the weights of step {best[1]}", flush=True)
    facts = {
        "steps": step,
        "kept_step": best[1],
        "minutes": round(elapsed, 2),
        "training_tokens": length,
    }
    return average, {**facts, "validation_log": log}


def save(model: LlamaForCausalLM, tokenizer: Tokenizer, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save(str(out / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONTEXT,
    }
    (out / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    for file in out.iterdir():
        # safetensors files come out readable by their owner only.
        file.chmod(0o644)


@torch.no_grad()
def show_samples(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, seed: int) -> None:
    torch.manual_seed(seed)
    device = next(model.parameters()).device
    for prompt in [
        "",
        "In the beginning",
        "And it came to pass",
        "Emma was not sorry",
        "It is a truth",
    ]:
        ids = torch.tensor([tokenizer(prompt)["input_ids"]], device=device)
        text = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            temperature=0.8,
            top_p=0.95,
            max_new_tokens=80,
            pad_token_id=tokenizer.eos_token_id,
        )
        print(f"--- {prompt!r}\n{tokenizer.decode(text[0])}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, help="a text made by corpus.py")
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument(
        "--minutes", type=float, default=600.0, help="ends the schedule early if need be"
    )
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--decay", type=float, default=0.1)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--check", type=int, default=500, help="steps between validations")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("highest")
    if args.corpus is None:
        args.corpus = Path("corpus.txt")
        script = Path(__file__).with_name("corpus.py")
        subprocess.run([sys.executable, str(script), "--output", str(args.corpus)], check=True)
    documents, validation, held_out = split(read_corpus(args.corpus), args.seed)
    print(
        f"chapters: {len(documents)} training, {len(validation)} validation, {len(held_out)} held out"
    )

    tokenizer = train_tokenizer([text for _, text in documents])
    model = make_model(tokenizer)
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{parameters} parameters")
    model, facts = train(model, tokenizer, documents, validation, args)
    save(model, tokenizer, args.out)

    # What is measured is what was saved: the files are read back, and their bf16 values computed
    # with in float32.
    saved = LlamaForCausalLM.from_pretrained(args.out, dtype=torch.float32).to(args.device).eval()
    saved_tokenizer = PreTrainedTokenizerFast.from_pretrained(args.out)
    show_samples(saved, saved_tokenizer, args.seed)
    held = bits_per_byte(saved, tokenizer, held_out)
    valid = bits_per_byte(saved, tokenizer, validation)
    sizes = {
        p.name: p.stat().st_size for p in sorted(args.out.iterdir()) if p.name != "training.json"
    }
    result = {
        "parameters": parameters,
        "held_out_bits_per_byte": {name: round(value, 4) for name, value in held.items()},
        "validation_bits_per_byte": {name: round(value, 4) for name, value in valid.items()},
        "held_out_chapters": len(held_out),
        "held_out_bytes": sum(len(text.encode()) for _, text in held_out),
        "seed": args.seed,
        "batch": args.batch,
        "rate": args.rate,
        "decay": args.decay,
        "dropout": args.dropout,
        **facts,
    }
    (args.out / "training.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"files: {sizes}, {sum(sizes.values())} bytes together")
    print(f"held-out bits per byte of the saved bf16 weights: {result['held_out_bits_per_byte']}")


if __name__ == "__main__":
    main()
