"""A tensor-parallel decode step of a Llama in PyTorch, to compare ours with.

torch_decode.py --json FILE --ranks P --hidden N --layers N --heads N --kv-heads N --head-dim N --width N --vocabulary N
    [--batch N,... --context N,... --steps N --repeats N --warmup N]

`bin/nvrar decode-bench` starts it. It starts a process for each rank, each with a GPU. A step is one CUDA graph, bf16, with random
weights and a random cache: what lies between the products and attention is fused by torch.compile, products are cuBLAS, attention is
the fastest of PyTorch's backends as measured here, and the greedy token is the next step's. The last position is always that of the
context, and every rank has the whole embedding, which saves an all-reduce. The layers' all-reduces are in turn those of NCCL, the
one-shot and the two-shot ones of symmetric memory, and none, for what is left without them (then the results are wrong on purpose).

Time: as decode-bench says: blocks of replays between two events, behind a replay that is not timed, all enqueued ahead; on the slowest
rank. Checked: two layers and the head against the same in float32, and that all ranks have the same tokens.
"""

import argparse
import contextlib
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../native/bench"))

import peers  # noqa: E402, before PyTorch
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as functional  # noqa: E402
from peers import returning  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

EPSILON = 1e-5
THETA = 500000.0
CHECKED_LAYERS = 2
# The relative error of bfloat16 after two layers is 5e-3 to 6e-3.
TOLERANCE = 2e-2
CHUNK_ROWS = 4096
ATTENTION_CALLS = 20
ATTENTION_REPEATS = 10


def parse():
    numbers = lambda text: [int(number) for number in text.split(",")]  # noqa: E731
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--json", required=True)
    for name in ("ranks", "hidden", "layers", "heads", "kv-heads", "head-dim", "width", "vocabulary"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--batch", type=numbers, default=[1, 8, 32])
    parser.add_argument("--context", type=numbers, default=[1024])
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    return parser.parse_args()


class Layer:
    """A rank's part, matrices as [outputs][inputs]."""

    def __init__(self, model, positions):
        o, device = model.options, model.device
        h, kv, width = model.heads, model.kv_heads, model.width
        random = lambda *shape: torch.randn(shape, dtype=torch.bfloat16, device=device)  # noqa: E731
        self.norms = [1 + 0.1 * model.shared(o.hidden) for _ in range(2)]
        self.qkv = random((h + 2 * kv) * o.head_dim, o.hidden).mul_(o.hidden**-0.5)
        self.out = random(o.hidden, h * o.head_dim).mul_((o.heads * o.head_dim) ** -0.5)
        self.gate_up = random(2 * width, o.hidden).mul_(o.hidden**-0.5)
        self.down = random(o.hidden, width).mul_(o.width**-0.5)
        self.cache = random(2, positions * kv * o.head_dim)

    def keys_and_values(self, model, batch, context):
        shape = (batch, model.kv_heads, context, model.options.head_dim)
        return [part[: batch * model.kv_heads * context * shape[3]].view(shape) for part in self.cache]


class Model:
    def __init__(self, options, rank, world, device):
        self.options, self.rank, self.world, self.device = options, rank, world, device
        o = options
        self.heads, self.kv_heads = o.heads // world, o.kv_heads // world
        self.width, self.vocabulary = o.width // world, o.vocabulary // world
        self.generator = torch.Generator(device).manual_seed(1)
        torch.manual_seed(100 + rank)
        self.embedding = self.shared(o.vocabulary, o.hidden)
        self.layers = [Layer(self, max(o.batch) * max(o.context)) for _ in range(o.layers)]
        self.norm = 1 + 0.1 * self.shared(o.hidden)
        self.head = torch.randn(self.vocabulary, o.hidden, dtype=torch.bfloat16, device=device).mul_(o.hidden**-0.5)
        angles = torch.outer(
            torch.arange(max(o.context), dtype=torch.float32, device=device),
            THETA ** (-torch.arange(0, o.head_dim, 2, dtype=torch.float32, device=device) / o.head_dim),
        )
        self.cosines = torch.cat([angles.cos()] * 2, 1).to(torch.bfloat16)
        self.sines = torch.cat([-angles.sin(), angles.sin()], 1).to(torch.bfloat16)

    def shared(self, *shape):
        """Random numbers that are the same on all ranks."""
        return torch.randn(shape, generator=self.generator, dtype=torch.bfloat16, device=self.device)


class Step:
    """A step of a batch at a context, with its buffers and compiled pieces."""

    def __init__(self, model, batch, context, symmetric):
        self.model, self.batch, self.context = model, batch, context
        o, device = model.options, model.device
        self.tokens = torch.arange(batch, device=device) * 7919 % o.vocabulary
        self.first_tokens = self.tokens.clone()
        self.position = torch.full((1,), context - 1, device=device)
        self.zero, self.plain, self.summed = (
            torch.zeros(batch, o.hidden, dtype=torch.bfloat16, device=device) for _ in range(3)
        )
        self.partial = symmetric((batch, o.hidden), torch.bfloat16)
        # The greatest logit and its token, of each rank.
        self.best = symmetric((model.world, batch, 2), torch.float32)
        self.all_best = torch.zeros(model.world, batch, 2, device=device)
        compiled = lambda function: torch.compile(function, dynamic=False, fullgraph=True)  # noqa: E731
        self.before_attention, self.before_down = compiled(self.queries), compiled(self.gated)
        self.at_head, self.chosen = compiled(self.logits), compiled(self.choose)
        self.attend = None

    def queries(self, x, residual, norm, weight, cosines, sines, keys, values, position):
        m, size = self.model, self.model.options.head_dim
        x = x + residual
        qkv = functional.rms_norm(x, x.shape[-1:], norm, EPSILON) @ weight.t()
        qkv = qkv.view(self.batch, m.heads + 2 * m.kv_heads, size)
        qk, v = qkv[:, : m.heads + m.kv_heads], qkv[:, m.heads + m.kv_heads :]
        qk = torch.addcmul(qk * cosines, qk.roll(size // 2, -1), sines)
        keys.index_copy_(2, position, qk[:, m.heads :].unsqueeze(2))
        values.index_copy_(2, position, v.unsqueeze(2))
        return x, qk[:, : m.heads].unsqueeze(2)

    def gated(self, x, residual, norm, weight):
        x = x + residual
        gate, up = (functional.rms_norm(x, x.shape[-1:], norm, EPSILON) @ weight.t()).chunk(2, -1)
        return x, functional.silu(gate) * up

    def logits(self, x, residual, norm, weight, best):
        logits = functional.rms_norm(x + residual, x.shape[-1:], norm, EPSILON) @ weight.t()
        value, index = logits.max(-1)
        best.copy_(torch.stack([value.float(), index.float() + self.model.rank * self.model.vocabulary], -1))
        return logits

    def choose(self, best, tokens):
        rank = best[:, :, 0].argmax(0, keepdim=True)
        tokens.copy_(best[:, :, 1].gather(0, rank)[0].long())

    def all_reduce(self, name):
        """The buffer of the partial sums, and what returns their sums."""
        if name == "none":
            return self.plain, returning(self.plain, lambda: None)
        partial = self.plain if name == "nccl" else self.partial
        return partial, peers.all_reduce(name, partial, self.summed)

    def run(self, name, layers):
        m = self.model
        partial, reduce = self.all_reduce(name)
        x, residual = functional.embedding(self.tokens, m.embedding), self.zero
        cosines, sines = m.cosines[self.position], m.sines[self.position]
        for layer in m.layers[:layers]:
            keys, values = layer.keys_and_values(m, self.batch, self.context)
            x, q = self.before_attention(
                x, residual, layer.norms[0], layer.qkv, cosines, sines, keys, values, self.position
            )
            torch.mm(self.attend(q, keys, values), layer.out.t(), out=partial)
            residual = reduce()
            x, wide = self.before_down(x, residual, layer.norms[1], layer.gate_up)
            torch.mm(wide, layer.down.t(), out=partial)
            residual = reduce()
        logits = self.at_head(x, residual, m.norm, m.head, self.best[m.rank])
        if m.world == 1:
            self.all_best.copy_(self.best)
        elif name == "nccl":
            dist.all_gather_into_tensor(self.all_best, self.best[m.rank : m.rank + 1])
        else:
            # The other ranks' places are zeros.
            torch.ops.symm_mem.one_shot_all_reduce_out(self.best, "sum", dist.group.WORLD.group_name, self.all_best)
        self.chosen(self.all_best, self.tokens)
        return logits

    def attentions(self):
        """What attention there is, by name. All positions of the cache are valid, so that none needs a mask."""
        m, size = self.model, self.model.options.head_dim
        group, shared = m.heads // m.kv_heads, (self.batch, m.kv_heads, m.heads // m.kv_heads, size)

        def of_backend(backend, q_shape):
            def attend(q, keys, values):
                grouped = q_shape is None
                with sdpa_kernel(backend):
                    q = q if grouped else q.reshape(q_shape)
                    out = functional.scaled_dot_product_attention(q, keys, values, enable_gqa=grouped)
                return out.reshape(self.batch, m.heads * size)

            return attend

        def products(q, keys, values):
            rows = (self.batch * m.kv_heads, -1, size)
            scores = torch.bmm(q.reshape(-1, group, size), keys.view(rows).transpose(1, 2)) * size**-0.5
            return torch.bmm(scores.softmax(-1), values.view(rows)).view(self.batch, m.heads * size)

        return {
            "cudnn": of_backend(SDPBackend.CUDNN_ATTENTION, None),
            "cudnn, heads as positions": of_backend(SDPBackend.CUDNN_ATTENTION, shared),
            "flash": of_backend(SDPBackend.FLASH_ATTENTION, None),
            "products": products,
        }

    def reference(self, layers):
        """This rank's logits, in float32 but for the weights and the cache."""
        m, o = self.model, self.model.options
        heads, kv, size = m.heads, m.kv_heads, o.head_dim
        cosines, sines = m.cosines[self.context - 1], m.sines[self.context - 1]
        norm = lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * w.float()  # noqa: E731

        def product(x, weight):
            return torch.cat([x @ rows.float().t() for rows in weight.split(CHUNK_ROWS)], 1)

        def summed(x):
            if m.world > 1:
                dist.all_reduce(x)
            return x

        x = m.embedding[self.first_tokens].float()
        for layer in m.layers[:layers]:
            qkv = product(norm(x, layer.norms[0]), layer.qkv).view(self.batch, -1, size)
            qk, v = qkv[:, : heads + kv], qkv[:, heads + kv :]
            qk = qk * cosines + qk.roll(size // 2, -1) * sines
            keys, values = (part.float() for part in layer.keys_and_values(m, self.batch, self.context))
            keys[:, :, -1], values[:, :, -1] = qk[:, heads:], v
            q = qk[:, :heads].reshape(self.batch, kv, heads // kv, size)
            weights = torch.softmax(q @ keys.transpose(2, 3) * size**-0.5, -1)
            x = x + summed(product((weights @ values).reshape(self.batch, -1), layer.out))
            gate, up = product(norm(x, layer.norms[1]), layer.gate_up).chunk(2, -1)
            x = x + summed(product(functional.silu(gate) * up, layer.down))
        return product(norm(x, m.norm), m.head)


class Bench:
    def __init__(self, model):
        self.model, self.options, self.lines = model, model.options, []

    def symmetric(self, shape, dtype):
        if self.model.world == 1:
            return torch.zeros(shape, dtype=dtype, device=self.model.device)
        return peers.symmetric(shape, dtype, self.model.device).zero_()

    def capture(self, work):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            work()
        stream.synchronize()
        peers.meet()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            work()
        torch.cuda.synchronize()
        return graph

    def blocks(self, graph, replays, count):
        """Milliseconds of a replay in each block, on the slowest rank."""
        peers.meet()
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
        for begin, end in events:
            graph.replay()
            begin.record()
            for _ in range(replays):
                graph.replay()
            end.record()
        torch.cuda.synchronize()
        return peers.slowest([begin.elapsed_time(end) / replays for begin, end in events], self.model.device)

    def fastest_attention(self, step):
        m, times = self.model, {}
        q = torch.randn(step.batch, m.heads, 1, self.options.head_dim, dtype=torch.bfloat16, device=m.device)
        caches = [layer.keys_and_values(m, step.batch, step.context) for layer in m.layers]
        for name, attend in step.attentions().items():
            # A backend that does not take these sizes takes them on no rank.
            with contextlib.suppress(RuntimeError):
                attend(q, *caches[0])
                torch.cuda.synchronize()
                calls = [caches[i % len(caches)] for i in range(ATTENTION_CALLS)]
                graph = self.capture(lambda: [attend(q, *cache) for cache in calls])
                times[name] = sorted(self.blocks(graph, 1, ATTENTION_REPEATS))[ATTENTION_REPEATS // 2]
        fastest = min(times, key=times.get)
        return fastest, step.attentions()[fastest]

    def problem(self, step, name, expected):
        """Runs the step as it is, with two layers."""
        step.tokens.copy_(step.first_tokens)
        step.plain.fill_(float("nan"))
        peers.meet()
        logits = step.run(name, CHECKED_LAYERS).float()
        errors = torch.stack([(logits - expected).pow(2).sum(), expected.pow(2).sum()])
        dist.all_reduce(errors)
        error = (errors[0] / errors[1]).sqrt().item()
        if not error < TOLERANCE:
            return f"two layers and the head have a relative error of {error:.1e}"
        return self.token_problem(step)

    def token_problem(self, step):
        tokens = [torch.empty_like(step.tokens) for _ in range(self.model.world)]
        dist.all_gather(tokens, step.tokens)
        return "" if all(torch.equal(tokens[0], other) for other in tokens) else "the ranks have different tokens"

    def run(self, batch, context):
        torch._dynamo.reset()
        o, step = self.options, Step(self.model, batch, context, self.symmetric)
        attention, step.attend = self.fastest_attention(step)
        expected = step.reference(CHECKED_LAYERS)
        names = ["nccl", "one-shot", "two-shot", "none"] if self.model.world > 1 else ["none"]
        lines, without = [], None
        for name in names:
            wrong_on_purpose = name == "none" and self.model.world > 1
            problem = "" if wrong_on_purpose else self.problem(step, name, expected)
            step.tokens.copy_(step.first_tokens)
            # Of the check's NaN.
            step.plain.zero_()
            graph = self.capture(lambda name=name: step.run(name, o.layers))
            step.tokens.copy_(step.first_tokens)
            millis = self.blocks(graph, o.steps, o.warmup + o.repeats)[o.warmup :]
            del graph
            if wrong_on_purpose:
                without = statistics.median(millis)
                continue
            shape = {"name": "decode", "ranks": self.model.world, "batch": batch, "context": context, "all_reduce": name}
            problem = problem or self.token_problem(step)
            lines.append(peers.result("decode", peers.version(), shape, "ms", millis, problem=problem, attention=attention))
        self.lines += [{**line, "without": without} for line in lines]


def measure(options, rank, world, device):
    torch._dynamo.config.recompile_limit = 64
    with torch.no_grad():
        bench = Bench(Model(options, rank, world, device))
        for context in options.context:
            for batch in options.batch:
                bench.run(batch, context)
    return bench.lines


if __name__ == "__main__":
    given = parse()
    threads = max(2, (os.cpu_count() or 8) // given.ranks - 2)
    peers.run(given.ranks, given.json, lambda *rank: measure(given, *rank), TORCHINDUCTOR_COMPILE_THREADS=str(threads))
