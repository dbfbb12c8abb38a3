#!/usr/bin/env python3
"""Makes the reference outputs that the decoder of this example is compared with.

Usage: references.py [--tests test-models] [--seeded test-models] [--model out]

With --tests it writes tiny models with random weights, each with its reference. With --seeded it writes
configurations and references of larger ones, whose weights are not kept: random_weights.py makes them. With
--model it writes the reference of a trained model (see train.py) next to its files.

A reference is reference.json (prompt, generated tokens) and logits.npy: row i holds the logits which
generated token i was chosen from by the greatest, the end-of-text token having no special meaning; of a large
vocabulary only each column_step-th column. Everything is computed by transformers in float32 on the CPU from
the weights read back from the files, or from those of random_weights.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import tokenizers
import torch
import transformers
from tokenizers import Tokenizer
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
)

import random_weights

MAX_TOKENS = 12

SEEDED_TOKENS = 64
SEEDED_COLUMN_STEP = 16

PROMPT = (
    "It came to pass in the days of the king, that there was a young woman of good sense, "
    "whose father was much esteemed in the country; and she said,"
)

CASES = [
    "",
    "In the beginning God created the heaven and the earth.",
    "Emma Woodhouse, handsome, clever, and rich",
    " one leading space",
    "   three leading spaces, and two trailing  ",
    "first line\nsecond line\n\nfourth line\n",
    "tabs\tand\r\ncarriage returns",
    "déjà vu, naïve café, Größe, señor",
    "Ελληνικά, Русский, 中文, 日本語",
    "emoji 😀, a family 👨‍👩‍👧, and a flag 🇫🇷",
    "it's we'll they've I'm he'd you're don't",
    "numbers 1234567890 and 3.14159, punctuation --;:!?()[]{}<>|&*#@",
    "UPPER lower MiXeD aaaaaaaaaaaaaaaaaaaaaaaa",
    "combining e\u0301, no-break\u00a0space, zero\u200bwidth, \u2028line separator",
    "<|begin_of_text|>special tokens in the text<|end_of_text|>",
]

COMMON = {
    "architectures": ["LlamaForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "max_position_embeddings": 512,
    "model_type": "llama",
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "use_cache": True,
}
VERSION_4 = {"transformers_version": "4.51.3"}
VERSION_5 = {"transformers_version": "5.17.0"}

# The spellings of config.json differ between transformers 4 and 5, and a decoder meets both.
TINY = {
    "gqa8": {
        **COMMON,
        **VERSION_4,
        "attention_bias": False,
        "mlp_bias": False,
        "head_dim": 8,
        "hidden_size": 64,
        "intermediate_size": 101,
        "num_attention_heads": 8,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "rope_scaling": None,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "vocab_size": 257,
    },
    "linear6": {
        **COMMON,
        **VERSION_4,
        "attention_bias": False,
        "mlp_bias": False,
        "head_dim": 12,
        "hidden_size": 72,
        "intermediate_size": 130,
        "num_attention_heads": 6,
        "num_hidden_layers": 2,
        "num_key_value_heads": 3,
        "rope_scaling": {"factor": 2.0, "rope_type": "linear", "type": "linear"},
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "vocab_size": 301,
    },
    "llama3rope7": {
        **COMMON,
        **VERSION_5,
        "attention_bias": False,
        "mlp_bias": False,
        "dtype": "float16",
        # Not hidden_size / num_attention_heads, which a decoder might otherwise assume.
        "head_dim": 16,
        "hidden_size": 56,
        "intermediate_size": 97,
        "num_attention_heads": 7,
        "num_hidden_layers": 3,
        "num_key_value_heads": 1,
        # With 32 original positions the wavelengths (6.3, 13.7, 29.7, 64.6, ...) fall into all three
        # ranges of this scaling: below 32 / 4, between, and above 32 / 1.
        "rope_parameters": {
            "factor": 8.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 32,
            "rope_theta": 500.0,
            "rope_type": "llama3",
        },
        "tie_word_embeddings": True,
        "vocab_size": 263,
    },
    "mha5": {
        **COMMON,
        **VERSION_5,
        "attention_bias": True,
        "mlp_bias": True,
        "dtype": "bfloat16",
        "head_dim": 12,
        "hidden_size": 60,
        "intermediate_size": 83,
        "num_attention_heads": 5,
        "num_hidden_layers": 2,
        "num_key_value_heads": 5,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
        "tie_word_embeddings": False,
        "vocab_size": 211,
    },
    "qwen6": {
        **COMMON,
        **VERSION_4,
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 72,
        "intermediate_size": 110,
        # Shorter than the prompt, but switched off.
        "max_window_layers": 0,
        "num_attention_heads": 6,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "rope_theta": 1000.0,
        "sliding_window": 8,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_sliding_window": False,
        "vocab_size": 239,
    },
    "mistral4": {
        **COMMON,
        **VERSION_5,
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "dtype": "float16",
        "head_dim": 20,
        "hidden_size": 64,
        "intermediate_size": 115,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
        "sliding_window": None,
        "tie_word_embeddings": False,
        "vocab_size": 223,
    },
}

# Of the sizes that fast kernels take, and for every world of 1, 2, 4 and 8 ranks.
SEEDED = {
    "seeded64": {
        **COMMON,
        **VERSION_4,
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_attention_heads": 16,
        "num_hidden_layers": 3,
        "num_key_value_heads": 8,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_sliding_window": False,
        "vocab_size": 4096,
    },
    "seeded128": {
        **COMMON,
        **VERSION_4,
        "attention_bias": False,
        "mlp_bias": False,
        "head_dim": 128,
        "hidden_size": 1536,
        "intermediate_size": 4096,
        "num_attention_heads": 16,
        "num_hidden_layers": 2,
        "num_key_value_heads": 4,
        "rope_scaling": {
            "factor": 8.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 32,
            "rope_type": "llama3",
        },
        "rope_theta": 500.0,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "vocab_size": 4160,
    },
}

SHARD_SIZE = {"linear6": "90KB"}


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def randomise(model: PreTrainedModel, generator: torch.Generator) -> None:
    """Weights with which every part of the model moves the logits."""
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name:
                parameter.copy_(1 + 0.3 * noise)
            elif "q_proj.weight" in name or "k_proj.weight" in name:
                # Attention this sharp depends on positions, so that a wrong rotation shows.
                parameter.copy_(0.25 * noise)
            elif name.endswith(".bias") or "embed_tokens" in name:
                parameter.copy_(0.2 * noise)
            else:
                parameter.copy_(0.12 * noise)


@torch.no_grad()
def greedy(model: PreTrainedModel, prompt: list[int], count: int) -> tuple[list[int], np.ndarray]:
    # The whole sequence is computed anew for each token: the reference must not lean on a cache.
    ids = list(prompt)
    rows = []
    for _ in range(count):
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
        rows.append(logits.numpy())
        ids.append(int(logits.argmax()))
    return ids[len(prompt) :], np.ascontiguousarray(np.stack(rows), dtype=np.float32)


def least_gap(logits: np.ndarray) -> float:
    """The least distance of a chosen token's logit from the second greatest."""
    ordered = np.sort(logits, axis=1)
    return float((ordered[:, -1] - ordered[:, -2]).min())


def choose_prompt(
    model: PreTrainedModel, generator: torch.Generator, count: int, gap: float
) -> list[int]:
    """A random prompt after which no two tokens are so close that rounding decides between them."""
    while True:
        prompt = torch.randint(3, model.config.vocab_size, (24,), generator=generator).tolist()
        generated, logits = greedy(model, prompt, count)
        # One token over and over would not tell whether decoding goes on rightly.
        if least_gap(logits) > gap and len(set(generated)) > count // 2:
            return prompt


def read_model(folder: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def write_reference(
    folder: Path,
    model: PreTrainedModel,
    prompt: list[int],
    extra: dict[str, object],
    count: int = MAX_TOKENS,
    column_step: int = 1,
) -> np.ndarray:
    generated, logits = greedy(model, prompt, count)
    kept = np.ascontiguousarray(logits[:, ::column_step])
    with (folder / "logits.npy").open("wb") as file:
        np.lib.format.write_array(file, kept, version=(1, 0))
    reference = {
        **extra,
        "prompt_ids": prompt,
        "generated_ids": generated,
        "max_tokens": count,
        "transformers_version": transformers.__version__,
        "torch_version": torch.__version__,
        "computation_dtype": "float32",
    }
    write_json(folder / "reference.json", reference)
    print(
        f"{folder.name}: logits' standard deviation {logits.std():.3f}, "
        f"least gap between the first and the second {least_gap(logits):.4f}, generated {generated}"
    )
    return logits


def other_logits(folder: Path, config: PreTrainedConfig, prompt: list[int]) -> np.ndarray:
    model = AutoModelForCausalLM.from_pretrained(folder, config=config, dtype=torch.float32)
    model.eval()
    with torch.no_grad():
        return model(input_ids=torch.tensor([prompt]), use_cache=False).logits[0, -1].numpy()


def check_spelling(folder: Path, prompt: list[int], logits: np.ndarray) -> None:
    """Checks that config.json is understood, and that the rotation matters."""
    config = json.loads((folder / "config.json").read_text())
    theta = config.get("rope_theta")
    rope = config.get("rope_parameters") or {
        "rope_type": "default",
        **(config.get("rope_scaling") or {}),
    }
    rope = {"rope_theta": theta, **rope} if theta else dict(rope)
    explicit = {
        k: v for k, v in config.items() if k not in ("rope_theta", "rope_scaling", "torch_dtype")
    }
    same = other_logits(
        folder, AutoConfig.for_model(**{**explicit, "rope_parameters": rope}), prompt
    )
    error = float(np.abs(same - logits[0]).max())
    if error != 0:
        sys.exit(f"{folder.name}: the spelled-out configuration gives logits {error} away")
    plain = {"rope_type": "default", "rope_theta": rope["rope_theta"]}
    if rope["rope_type"] == "default":
        plain["rope_theta"] *= 2
    changed = other_logits(
        folder, AutoConfig.for_model(**{**explicit, "rope_parameters": plain}), prompt
    )
    difference = float(np.abs(changed - logits[0]).max())
    if difference < 0.05:
        sys.exit(f"{folder.name}: another rotation changes the logits by {difference} only")
    print(f"{folder.name}: another rotation changes the logits by up to {difference:.3f}")


def make_tiny(tests: Path) -> None:
    for seed, (name, config) in enumerate(TINY.items()):
        folder = tests / name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        generator = torch.Generator().manual_seed(1000 + seed)
        write_json(folder / "config.json", config)
        dtype = getattr(torch, config.get("dtype") or config["torch_dtype"])
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
        randomise(model, generator)
        model.to(dtype).save_pretrained(folder, max_shard_size=SHARD_SIZE.get(name, "1GB"))
        # transformers has just written its own spelling over this one.
        write_json(folder / "config.json", config)
        (folder / "generation_config.json").unlink(missing_ok=True)
        for file in folder.iterdir():
            # safetensors files come out readable by their owner only.
            file.chmod(0o644)
        model = read_model(folder)
        prompt = choose_prompt(model, generator, MAX_TOKENS, 0.03)
        logits = write_reference(folder, model, prompt, {})
        check_spelling(folder, prompt, logits)
        size = sum(file.stat().st_size for file in folder.iterdir())
        print(f"{name}: {size} bytes in {len(list(folder.iterdir()))} files")
        if size >= 400_000:
            sys.exit(f"{name}: too big to be kept in the repository")


@torch.no_grad()
def seeded_model(folder: Path, seed: int) -> PreTrainedModel:
    model = AutoModelForCausalLM.from_config(
        AutoConfig.from_pretrained(folder), dtype=torch.float32
    )
    for name, parameter in model.named_parameters():
        bits = random_weights.tensor(name, tuple(parameter.shape), seed)
        parameter.copy_(torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16))
    return model.eval()


def make_seeded(tests: Path) -> None:
    for seed, (name, config) in enumerate(SEEDED.items()):
        folder = tests / name
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "config.json", config)
        model = seeded_model(folder, seed)
        generator = torch.Generator().manual_seed(2000 + seed)
        prompt = choose_prompt(model, generator, SEEDED_TOKENS, 0.01)
        extra = {"weights_seed": seed, "column_step": SEEDED_COLUMN_STEP}
        write_reference(folder, model, prompt, extra, SEEDED_TOKENS, SEEDED_COLUMN_STEP)


def make_trained(folder: Path) -> None:
    fast = Tokenizer.from_file(str(folder / "tokenizer.json"))
    automatic = AutoTokenizer.from_pretrained(folder)
    cases = []
    for text in CASES:
        ids = fast.encode(text, add_special_tokens=False).ids
        with_special = fast.encode(text).ids
        if automatic(text)["input_ids"] != with_special:
            sys.exit(f"AutoTokenizer encodes {text!r} otherwise than tokenizers")
        decoded = fast.decode(ids, skip_special_tokens=False)
        if decoded != text:
            sys.exit(f"{text!r} is decoded to {decoded!r}")
        # "ids" lacks the begin-of-text token that "ids_with_special_tokens" starts with.
        case = {
            "text": text,
            "ids": ids,
            "ids_with_special_tokens": with_special,
            "decoded": decoded,
        }
        cases.append(case)
    content = {"tokenizers_version": tokenizers.__version__, "cases": cases}
    write_json(folder / "tokenizer_cases.json", content)
    prompt = fast.encode(PROMPT).ids
    logits = write_reference(folder, read_model(folder), prompt, {"prompt_text": PROMPT})
    path = folder / "reference.json"
    reference = json.loads(path.read_text())
    reference["generated_text"] = fast.decode(reference["generated_ids"], skip_special_tokens=False)
    write_json(path, reference)
    print(f"{PROMPT}{reference['generated_text']}")
    if logits.shape != (MAX_TOKENS, automatic.vocab_size):
        sys.exit(f"logits of the shape {logits.shape}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", type=Path, help="where to write the tiny models")
    parser.add_argument("--seeded", type=Path, help="where to write the models without weights")
    parser.add_argument("--model", type=Path, help="a directory which train.py has written")
    args = parser.parse_args()
    if args.tests is None and args.seeded is None and args.model is None:
        parser.error("give --tests, --seeded or --model")
    # One thread adds in one order, so that the last bits do not depend on the number of cores.
    torch.set_num_threads(1)
    if args.tests is not None:
        make_tiny(args.tests)
    if args.seeded is not None:
        make_seeded(args.seeded)
    if args.model is not None:
        make_trained(args.model)


if __name__ == "__main__":
    main()
