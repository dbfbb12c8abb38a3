"""What a fused all-reduce does with its sums, as a kernel that PyTorch compiles, and whether its results are right.

The sums and what is added to them are whole numbers, so that only an RMS norm is not exact.
"""

import torch
import torch.nn.functional

EPS = 1e-5
PART_BYTES = 128
# Of fused_problem.cpp: the bits of a mantissa, and how many units in the last place an RMS norm may be off.
FORMATS = {torch.bfloat16: (8, 1), torch.float16: (11, 1), torch.float32: (24, 16)}


def residual(x, r, _):
    return (x + r,)


def bias(x, _, w):
    return (x + w,)


def rms_norm(x, r, w):
    h = x + r
    wide = h.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS) * w.float()).to(x.dtype), h


def rms_fold(x, r, w):
    h = x + r
    return h * w, h, squares(h.float(), PART_BYTES // x.element_size())


STEPS = {"residual": residual, "bias": bias, "rms-norm": rms_norm, "rms-fold": rms_fold}


def squares(h, in_part):
    """The sum of the squares of so many elements each, of the last part of a row also of fewer."""
    padded = torch.nn.functional.pad(h.square(), (0, -h.shape[-1] % in_part))
    return padded.unflatten(-1, (-1, in_part)).sum(-1)


class Fusion:
    """What comes behind the all-reduce of a call. The residual has its rows, the weight the elements of one."""

    def __init__(self, form, residual, weight):
        self.form, self.residual, self.weight = form, residual, weight
        # Anew for each number of rows: PyTorch keeps kernels for a few shapes of a function only.
        torch.compiler.reset()
        self.step = torch.compile(STEPS[form], dynamic=False, mode="max-autotune-no-cudagraphs")
        # Compiled here, where no rank waits for another.
        self.behind(torch.zeros_like(residual))

    def behind(self, sums):
        """The output, then h and the squares if the form has them."""
        return self.step(sums.view_as(self.residual), self.residual, self.weight)

    def wrong(self, sums, results):
        """How many elements of the results are not what these sums give."""
        return sum(
            int(self.is_off(result, expected, ulps).sum().item())
            for result, (expected, ulps) in zip(results, self.expected(sums), strict=True)
        )

    def expected(self, sums):
        """The results in float64, and how many units in the last place they may be off."""
        x, r, w = (tensor.double() for tensor in (sums.view_as(self.residual), self.residual, self.weight))
        h = x + (w if self.form == "bias" else r)
        if self.form == "rms-norm":
            scale = 1 / torch.sqrt(h.square().mean(-1, keepdim=True) + EPS)
            return (h * scale * w, FORMATS[self.residual.dtype][1]), (h, 0)
        if self.form == "rms-fold":
            # A product that is rounded once is off by half a unit at most.
            return (h * w, 0.5), (h, 0), (squares(h, PART_BYTES // self.residual.element_size()), 0)
        return ((h, 0),)

    def is_off(self, result, expected, ulps):
        _, exponent = torch.frexp(expected)
        unit = torch.ldexp(torch.ones_like(expected), exponent - FORMATS[self.residual.dtype][0])
        # So that what is not a number is off, too; 0 has no unit.
        return ~((result.double() - expected).abs() <= ulps * unit * (expected != 0))
