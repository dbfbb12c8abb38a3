"""Draws small model directories at random, and asks transformers what it makes of each.

A directory gets config.json, weights and sometimes a tokenizer, each in one of the ways in which such files are found in the
world, right ones and broken ones, and a reference.json:

    prompt_ids, generated_ids   with logits.npy, what transformers computes in float32; missing if it cannot
    transformers_error          why it cannot
    refusals                    clauses of which one is in the decoder's sentence if it refuses; without any it must decode
    texts                       prompts, the tokens behind them, and the text of these tokens

The test DrawnModelsTest decodes all of them. Draw number N is the same on every machine.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoModelForCausalLM

ROWS = 3
PROMPT_TOKENS = 12
LFS_POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)
FAMILIES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM"}
ABSENT = object()


class Draw:
    """One directory before it is written."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.torch = torch.Generator().manual_seed(seed)
        self.config: dict[str, object] = {}
        self.tensors: dict[str, torch.Tensor] = {}
        self.refusals: list[str] = []
        self.texts: list[dict[str, object]] = []
        self.tokenizer: Tokenizer | None = None

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def choose(self, *values: object) -> object:
        return self.random.choice(values)

    def set(self, key: str, value: object) -> None:
        if value is not ABSENT:
            self.config[key] = value

    def noise(self, *shape: int, scale: float) -> torch.Tensor:
        return scale * torch.randn(shape, generator=self.torch)


def draw_config(d: Draw) -> None:
    family = d.choose("llama", "llama", "mistral", "qwen2")
    d.family = family
    d.heads = d.choose(1, 2, 3, 4, 6)
    d.kv = d.choose(*[n for n in range(1, d.heads + 1) if d.heads % n == 0])
    d.head = d.choose(4, 6, 8, 12)
    d.hidden = d.heads * d.choose(4, 6, 8)
    d.wide = d.random.randint(5, 40)
    d.layers = d.choose(1, 2)
    d.vocabulary = d.random.randint(40, 120)
    d.set("model_type", family)
    d.set("architectures", d.choose(*[[FAMILIES[family]]] * 6, ABSENT, None, ["OurOwnForCausalLM"]))
    if d.chance(0.03):
        del d.config["model_type"]
    d.set("hidden_size", d.hidden)
    d.set("intermediate_size", d.wide)
    d.set("num_hidden_layers", d.layers)
    d.set("num_attention_heads", d.heads)
    d.set("num_key_value_heads", d.kv)
    if d.hidden == d.heads * d.head and d.chance(0.5):
        pass
    elif d.hidden % (2 * d.heads) == 0 and d.chance(0.4):
        d.head = d.hidden // d.heads
    else:
        d.set("head_dim", d.head)
    if family == "llama" and d.kv == d.heads and d.chance(0.5):
        d.config["num_key_value_heads"] = None
    if d.chance(0.03):
        # What is meant is then the family's.
        del d.config["num_key_value_heads"]
        absent = {"llama": d.heads, "mistral": 8, "qwen2": 32}[family]
        if d.heads % absent != 0:
            d.refusals.append("key/value heads do not divide")
        else:
            d.kv = absent
    d.set("rms_norm_eps", d.choose(1e-5, 1e-6, 1e-2, ABSENT))
    d.set("max_position_embeddings", d.choose(64, 64, 128, 2048, ABSENT))
    d.set("hidden_act", d.choose("silu", "silu", "silu", "swish", ABSENT))
    if d.chance(0.03):
        d.config["hidden_act"] = d.choose("gelu", "relu")
        d.refusals.append("activation")
    d.set("eos_token_id", d.choose(2, [2, 5], None, -1, 10**12, ABSENT))
    d.set("bos_token_id", d.choose(1, None, ABSENT))
    d.set(d.choose("torch_dtype", "dtype"), d.choose("float32", "bfloat16", "float16", ABSENT))
    d.set("attention_dropout", d.choose(0.0, ABSENT))
    d.set("pretraining_tp", d.choose(1, 2, ABSENT, ABSENT))
    d.set("use_cache", d.choose(True, False, ABSENT))
    d.set("attention_multiplier", d.choose(0.5, ABSENT, ABSENT, ABSENT))
    if d.chance(0.02):
        d.config["quantization_config"] = {"quant_method": "gptq", "bits": 4}
        d.refusals.append("quantized")
    draw_rope(d)
    draw_window(d)


def draw_scaling(d: Draw) -> dict[str, object]:
    kind = d.choose("default", "linear", "llama3", "llama3", *(["yarn", "dynamic"] if d.chance(0.2) else []))
    rope: dict[str, object] = {d.choose("rope_type", "rope_type", "type"): kind}
    if kind == "linear":
        rope["factor"] = d.choose(2.0, 4, 1.5)
    if kind == "llama3":
        rope.update(factor=d.choose(8.0, 2.0), low_freq_factor=1.0, high_freq_factor=4.0)
        rope["original_max_position_embeddings"] = d.choose(8, 16, 32)
        if d.chance(0.1):
            del rope["original_max_position_embeddings"]
    if kind in ("yarn", "dynamic"):
        rope["factor"] = 2.0
        rope["original_max_position_embeddings"] = 32
        d.refusals.append("rope type")
    return rope


def draw_rope(d: Draw) -> None:
    d.set("rope_theta", d.choose(10000.0, 500.0, 100, ABSENT))
    old = draw_scaling(d) if d.chance(0.4) else d.choose(None, ABSENT, {})
    new = draw_scaling(d) if d.chance(0.4) else d.choose(None, ABSENT, {})
    d.set("rope_scaling", old)
    if isinstance(new, dict) and d.chance(0.7):
        new["rope_theta"] = d.choose(10000.0, 300.0)
    d.set("rope_parameters", new)
    if d.chance(0.04):
        d.config["partial_rotary_factor"] = d.choose(0.5, 1.0)
        if d.config["partial_rotary_factor"] == 0.5:
            d.refusals.append("part of each head")
    if d.chance(0.03):
        d.config["rope_parameters"] = {"full_attention": {"rope_type": "default", "rope_theta": 300.0}}
        d.refusals.append("by parameters of their own")
    if d.chance(0.03):
        d.config["original_max_position_embeddings"] = 16


def draw_window(d: Draw) -> None:
    positions = d.config.get("max_position_embeddings", {"llama": 2048, "mistral": 131072, "qwen2": 32768}[d.family])
    if d.family == "mistral":
        window = d.choose(None, None, None, 8, 4096, ABSENT)
        d.set("sliding_window", window)
        if (4096 if window is ABSENT else window or math.inf) < positions:
            d.refusals.append("no such window")
    if d.family == "qwen2":
        used = d.choose(False, False, True, ABSENT)
        window = d.choose(None, 8, 4096, ABSENT)
        first = d.choose(0, 1, 2, 28, ABSENT)
        types = d.choose(ABSENT, ABSENT, ["full_attention"] * d.layers, None)
        if d.chance(0.1):
            types = ["sliding_attention", "full_attention"][: d.layers]
            d.refusals += ["no sliding window in use", "no such window"]
        if d.chance(0.05):
            types = d.choose(["full_attention"] * (d.layers + 1), ["linear_attention"] * d.layers)
            d.refusals += ["names", "of the type"]
        for key, value in (
            ("use_sliding_window", used),
            ("sliding_window", window),
            ("max_window_layers", first),
            ("layer_types", types),
        ):
            d.set(key, value)
        if used is True and types in (ABSENT, None) and (28 if first is ABSENT else first) < d.layers:
            if (4096 if window is ABSENT else window or math.inf) < positions:
                d.refusals.append("no such window")


def draw_tensors(d: Draw) -> None:
    """Weights with which every part of the model moves the logits."""
    tensors = d.tensors
    attention_bias = mlp_bias = False
    if d.family == "llama":
        attention_bias, mlp_bias = d.choose(True, False, False), d.choose(True, False, False)
        d.set("attention_bias", attention_bias or d.choose(False, ABSENT))
        d.set("mlp_bias", mlp_bias or d.choose(False, ABSENT))
    query_bias = attention_bias or d.family == "qwen2"
    tensors["model.embed_tokens.weight"] = d.noise(d.vocabulary, d.hidden, scale=0.2)
    tensors["model.norm.weight"] = 1 + d.noise(d.hidden, scale=0.3)
    for layer in range(d.layers):
        at = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{at}{norm}.weight"] = 1 + d.noise(d.hidden, scale=0.3)
        for name, outputs, inputs, scale, bias in (
            ("self_attn.q_proj", d.heads * d.head, d.hidden, 0.4, query_bias),
            ("self_attn.k_proj", d.kv * d.head, d.hidden, 0.4, query_bias),
            ("self_attn.v_proj", d.kv * d.head, d.hidden, 0.2, query_bias),
            ("self_attn.o_proj", d.hidden, d.heads * d.head, 0.2, attention_bias),
            ("mlp.gate_proj", d.wide, d.hidden, 0.2, mlp_bias),
            ("mlp.up_proj", d.wide, d.hidden, 0.2, mlp_bias),
            ("mlp.down_proj", d.hidden, d.wide, 0.2, mlp_bias),
        ):
            tensors[f"{at}{name}.weight"] = d.noise(outputs, inputs, scale=scale)
            if bias:
                tensors[f"{at}{name}.bias"] = d.noise(outputs, scale=0.2)
            elif d.chance(0.005):
                tensors[f"{at}{name}.bias"] = d.noise(outputs, scale=0.2)
                d.refusals.append("no such bias")
    tied = d.choose(True, False, ABSENT)
    d.set("tie_word_embeddings", tied)
    head = d.noise(d.vocabulary, d.hidden, scale=0.2)
    if tied is not True:
        tensors["lm_head.weight"] = head
    elif d.chance(0.3):
        tensors["lm_head.weight"] = d.choose(head, tensors["model.embed_tokens.weight"].clone())
    if d.chance(0.1):
        tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = d.noise(d.head // 2, scale=1)
    if d.chance(0.03):
        victim = d.choose(*sorted(tensors))
        if not victim.endswith("inv_freq"):
            del tensors[victim]
            d.refusals.append(f"lack {victim}")
    if d.chance(0.03):
        victim = tensors[d.choose(*sorted(name for name in tensors if not name.endswith("inv_freq")))]
        victim.view(-1)[d.random.randrange(victim.numel())] = d.choose(math.nan, math.inf)
        d.refusals.append("not finite numbers")
    cast(d)


def cast(d: Draw) -> None:
    kinds = [torch.float32, torch.float16, torch.bfloat16]
    kind = d.choose(*kinds)
    mixed, double = d.chance(0.15), d.chance(0.03)
    for name, tensor in d.tensors.items():
        d.tensors[name] = tensor.to(d.choose(*kinds) if mixed else kind).contiguous()
    if double:
        victim = d.choose(*sorted(d.tensors))
        d.tensors[victim] = d.tensors[victim].double()
        d.refusals.append("unknown dtype F64")


def draw_tokenizer(d: Draw) -> None:
    """A tokenizer of one of the kinds that Llamas have, without merges: its words are given."""
    words = ["hello", "world", "a", "b", "c", "the", "é", "."]
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)] + list(".,!? é")
    kind = d.choose("bytes", "fallback", "metaspace")
    space = "\u2581"
    if kind == "bytes":
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
    else:
        pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
        pieces += [space] + [c for c in letters if c != " "]
        vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
        merges = []
        for word in words:
            token = space
            for letter in word:
                merges.append((token, letter))
                token += letter
                vocabulary.setdefault(token, len(vocabulary))
        merges = list(dict.fromkeys(merges))
        tokenizer = Tokenizer(
            models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
        )
        if kind == "fallback":
            tokenizer.normalizer = normalizers.Sequence(
                [normalizers.Prepend(space), normalizers.Replace(" ", space)]
            )
            tokenizer.decoder = decoders.Sequence(
                [
                    decoders.Replace(space, " "),
                    decoders.ByteFallback(),
                    decoders.Fuse(),
                    decoders.Strip(" ", 1, 0),
                ]
            )
        else:
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=space, prepend_scheme="first")
            tokenizer.decoder = decoders.Sequence(
                [decoders.ByteFallback(), decoders.Metaspace(replacement=space, prepend_scheme="first")]
            )
    tokenizer.add_special_tokens(["<s>", "</s>", "<unk>"])
    tokenizer.add_tokens([AddedToken("<tool>", special=False, normalized=False)])
    d.tokenizer = tokenizer
    d.vocabulary = tokenizer.get_vocab_size() + d.choose(0, 3)
    for _ in range(6):
        text = " ".join(d.choose(*words, "😁", "😁😀", "中文", "x<tool>", "é\u0301") for _ in range(d.random.randint(1, 7)))
        prompt = " ".join(d.choose(*words, "😁😁", "中") for _ in range(d.random.randint(1, 4)))
        draw_text(d, prompt, tokenizer.encode(text, add_special_tokens=False).ids)


def draw_text(d: Draw, prompt: str, tokens: list[int]) -> None:
    tokenizer = d.tokenizer
    mixed = []
    for token in tokens:
        while d.chance(0.15):
            mixed.append(d.choose(tokenizer.token_to_id("<s>"), tokenizer.token_to_id("</s>"), d.vocabulary + 7))
        mixed.append(token)
    prompt_ids = tokenizer.encode(prompt).ids
    before = tokenizer.decode(prompt_ids)
    whole = tokenizer.decode(prompt_ids + mixed)
    # Of bytes that are no characters, a stream shows what it can before it knows.
    if whole.startswith(before) and "\ufffd" not in whole:
        d.texts.append({"prompt": prompt, "ids": mixed, "text": whole[len(before) :]})


def write(d: Draw, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(d.config, indent=1) + "\n")
    if d.tokenizer is not None:
        (folder / "tokenizer.json").write_text(json.dumps(json.loads(d.tokenizer.to_str()), ensure_ascii=False))
    if d.chance(0.1):
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": d.choose(3, [4, 5], -1)}))
    names = sorted(d.tensors)
    kind = d.choose(*["single"] * 4, "shards", "shards", "shards", "both", "twice", "broken")
    if kind in ("single", "both", "broken"):
        save_file(d.tensors, folder / "model.safetensors", metadata={"format": "pt"})
    if kind != "single":
        d.random.shuffle(names)
        write_shards(d, folder, names, kind)
    if kind == "broken":
        break_weights(d, folder)
    for file in folder.iterdir():
        file.chmod(0o644)


def write_shards(d: Draw, folder: Path, names: list[str], kind: str) -> None:
    if kind == "broken":
        return
    count = min(len(names), d.choose(1, 2, 3))
    weight_map = {}
    for shard in range(count):
        own = names[shard::count]
        file = f"model-{shard + 1:05}-of-{count:05}.safetensors"
        tensors = {name: d.tensors[name] for name in own}
        if kind == "both":
            tensors = {name: tensor + 1 for name, tensor in tensors.items()}
        if kind == "twice" and shard == 1:
            again = names[0]
            tensors[again] = d.tensors[again] + 1
            d.refusals.append("both hold a tensor")
        weight_map.update(dict.fromkeys(own, file))
        if kind == "both" and d.chance(0.5):
            # An index of files that are gone.
            continue
        save_file(tensors, folder / file, metadata={"format": "pt"})
    if kind == "shards" and d.chance(0.1) and count > 1:
        victim = d.choose(*sorted(weight_map))
        del weight_map[victim]
        if not set(weight_map.values()) == {f"model-{s + 1:05}-of-{count:05}.safetensors" for s in range(count)}:
            d.refusals.append("lack")
    if kind == "shards" and d.chance(0.06):
        (folder / d.choose(*sorted(set(weight_map.values())))).unlink()
        d.refusals.append("There is no ")
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))


def break_weights(d: Draw, folder: Path) -> None:
    file = folder / "model.safetensors"
    content = file.read_bytes()
    how = d.choose("truncated", "pointer", "pickled", "nothing", "config pointer", "garbage")
    if how == "truncated":
        file.write_bytes(content[: d.random.randrange(len(content))])
        d.refusals.append("is truncated")
    elif how == "pointer":
        file.write_text(LFS_POINTER)
        d.refusals.append("pointer of Git LFS")
    elif how == "pickled":
        file.unlink()
        torch.save(d.tensors, folder / "pytorch_model.bin")
        d.refusals.append("It holds pytorch_model.bin")
    elif how == "nothing":
        file.unlink()
        d.refusals.append("holds neither")
    elif how == "config pointer":
        (folder / "config.json").write_text(LFS_POINTER)
        d.refusals.append("pointer of Git LFS")
    else:
        file.write_bytes(d.random.randbytes(200))
        d.refusals.append("is no safetensors file")


@torch.no_grad()
def ask_transformers(d: Draw, folder: Path) -> dict[str, object]:
    """What transformers computes, and writes logits.npy; or its error."""
    try:
        model, info = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True, local_files_only=True
        )
    except Exception as e:  # noqa: BLE001 - whatever it says is the answer
        return {"transformers_error": f"{type(e).__name__}: {e}".splitlines()[0][:300]}
    if info["missing_keys"] or info["mismatched_keys"]:
        return {"transformers_error": f"makes up {sorted(info['missing_keys'])}"[:300]}
    model.eval()
    for _ in range(50):
        ids = torch.randint(0, d.vocabulary, (PROMPT_TOKENS,), generator=d.torch).tolist()
        rows, chosen = [], list(ids)
        try:
            for _ in range(ROWS):
                row = model(input_ids=torch.tensor([chosen]), use_cache=False).logits[0, -1].float().numpy()
                rows.append(row)
                chosen.append(int(row.argmax()))
        except Exception as e:  # noqa: BLE001
            return {"transformers_error": f"{type(e).__name__}: {e}".splitlines()[0][:300]}
        logits = np.stack(rows).astype(np.float32)
        if not np.isfinite(logits).all():
            return {"transformers_error": "logits that are not finite"}
        ordered = np.sort(logits, axis=1)
        # Rounding must not decide which token is chosen.
        if (ordered[:, -1] - ordered[:, -2]).min() > 0.01 * np.abs(logits).max():
            with (folder / "logits.npy").open("wb") as file:
                np.lib.format.write_array(file, logits, version=(1, 0))
            return {"prompt_ids": ids, "generated_ids": chosen[PROMPT_TOKENS:]}
    return {"transformers_error": "no prompt after which one token is the clear winner"}


def make(seed: int, folder: Path) -> str:
    if folder.exists():
        shutil.rmtree(folder)
    d = Draw(seed)
    draw_config(d)
    if d.chance(0.25):
        draw_tokenizer(d)
    d.set("vocab_size", d.vocabulary)
    draw_tensors(d)
    write(d, folder)
    reference: dict[str, object] = {"seed": seed, "refusals": sorted(set(d.refusals)), "texts": d.texts}
    reference.update(ask_transformers(d, folder))
    reference["transformers_version"] = transformers.__version__
    (folder / "reference.json").write_text(json.dumps(reference, indent=1, ensure_ascii=False) + "\n")
    return "refused" if "transformers_error" in reference else "computed"


def pack(folder: Path, archive: Path) -> None:
    """The same files make the same bytes: sorted, without times and owners."""
    with zipfile.ZipFile(archive, "w") as out:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(file.relative_to(folder).as_posix())
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, file.read_bytes(), compresslevel=9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="where to write them, a directory each, or a file .zip of all")
    parser.add_argument("--first", type=int, default=0, help="the number of the first draw")
    parser.add_argument("--count", type=int, default=100, help="how many")
    parser.add_argument("--only", help="these numbers instead, with commas between them")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no other is begun")
    args = parser.parse_args()
    numbers = (
        [int(number) for number in args.only.split(",")]
        if args.only
        else range(args.first, args.first + args.count)
    )
    # One thread adds in one order, so that the last bits do not depend on the number of cores.
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    end = time.monotonic() + 60 * args.minutes
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) if args.out.suffix == ".zip" else args.out
        for number in numbers:
            if time.monotonic() > end:
                break
            result = make(number, folder / str(number))
            counts[result] = counts.get(result, 0) + 1
        if not counts:
            sys.exit("no model was drawn")
        if folder != args.out:
            pack(folder, args.out)
    print(f"{sum(counts.values())} models: {counts}")


if __name__ == "__main__":
    main()
