"""The random weights that RandomTensors.java makes, bit for bit."""

from __future__ import annotations

import math

import numpy as np

# The increment and the multipliers of SplitMix64.
INCREMENT = np.uint64(0x9E3779B97F4A7C15)
MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))

NAME_BASIS = 0xCBF29CE484222325
NAME_PRIME = 0x100000001B3
MASK = (1 << 64) - 1

NUMBERS_PER_WORD = 4


def hash_of(name: str) -> int:
    """FNV-1a."""
    value = NAME_BASIS
    for byte in name.encode():
        value = (value ^ byte) * NAME_PRIME & MASK
    return value


def mixed(z: np.ndarray) -> np.ndarray:
    """SplitMix64's function of its state; products are taken modulo 2^64."""
    z = (z ^ (z >> np.uint64(30))) * MULTIPLIERS[0]
    z = (z ^ (z >> np.uint64(27))) * MULTIPLIERS[1]
    return z ^ (z >> np.uint64(31))


def to_brain(numbers: np.ndarray) -> np.ndarray:
    """The bits of the nearest bf16, of two the even one."""
    bits = np.ascontiguousarray(numbers, dtype=np.float32).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    return (rounded >> np.uint32(16)).astype(np.uint16)


def distribution(name: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """The center and the standard deviation of a tensor's numbers."""
    if name.endswith("norm.weight"):
        return 1, 0.2
    if name.endswith(".bias"):
        return 0, 0.25
    sharp = name in ("model.embed_tokens.weight", "lm_head.weight") or name.endswith(
        ("q_proj.weight", "k_proj.weight")
    )
    return 0, (2 if sharp else 1) / math.sqrt(shape[1])


def tensor(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """The bits of a tensor's numbers in bf16."""
    center, deviation = distribution(name, shape)
    step = np.float32(deviation * math.sqrt(3) / 65536)
    odd = (2 * np.arange(65536, dtype=np.int32) - 65535).astype(np.float32)
    numbers = to_brain(np.float32(center) + odd * step)
    count = math.prod(shape)
    key = mixed(np.array([(seed ^ hash_of(name)) & MASK], dtype=np.uint64))
    index = np.arange(-(-count // NUMBERS_PER_WORD), dtype=np.uint64)
    words = mixed(key + index * INCREMENT)
    # Little-endian: the first number is in the lowest bits.
    return numbers[words.astype("<u8").view("<u2")[:count]].reshape(shape)
