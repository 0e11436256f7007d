"""The kernels behind PyTorch's attention: flash, efficient, cuDNN and plain mathematics, by choice or as PyTorch chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hotlap.core.errors import NotSupported
from hotlap.core.measure.workloads.operators.attention_shape import AttentionShape, visible
from hotlap.core.measure.workloads.operators.base import Maker

Inputs = Mapping[str, Any]
NUMBERED = ("math", "flash", "efficient", "cudnn", "overrideable")  # as torch._fused_sdp_choice and torch.nn.attention.SDPBackend count
GPU_ONLY = ("efficient", "cudnn")


class Runner:
    """Launches one case. What depends on the device is settled when the first inputs are there."""

    def __init__(self, torch: Any, shape: AttentionShape, backend: str) -> None:
        self.torch, self.shape, self.asked, self.backend = torch, shape, backend, backend
        self.bias: Any = None  # 0 where a query sees a key, else −∞
        self.rest: tuple[Any, ...] = ()  # of the forward pass, what its gradient kernel asks for beside outputs and log-sums
        self.shared = {"enable_gqa": True} if shape.shared else {}
        self.part = ""
        self.compiled: Any = None  # of flex
        if backend == "flex" and shape.backward:
            raise NotSupported("gradients of PyTorch's flex attention are reached through autograd alone, with its forward pass")
        if backend == "efficient" and shape.shared:
            raise NotSupported("PyTorch's efficient attention has as many key heads as query heads")

    def name(self) -> str:
        names = {"math": "plain mathematics", "overrideable": "the vendor's own", "flex": "flex, compiled"}
        what = names.get(self.backend, self.backend)
        how = "attention backward" if self.shape.backward else "attention"
        return f"{how} ({what}{', mask' if self.bias is not None else ''})"

    # ------------------------------------------------------------ inputs

    def keys(self, i: Inputs) -> tuple[Any, Any]:
        """Keys and values (batch, heads, tokens, width) as the kernel gets them."""
        shape = self.shape
        rows = {name: self._tokens(i, name) for name in (("kv",) if shape.latent else ("k", "v"))}
        if shape.latent:
            return rows["kv"][..., : shape.width], rows["kv"][..., : shape.values]
        return rows["k"], rows["v"]

    def _tokens(self, i: Inputs, name: str) -> Any:
        shape, x = self.shape, i[name]
        if shape.page:
            x = x.index_select(0, i["table"]).view(shape.batch, -1, *x.shape[2:])[:, : shape.kv].transpose(1, 2)
        if shape.tail:
            x = x[:, :, -shape.window :]
        return x if x.dtype == i["q"].dtype else x.to(i["q"].dtype)

    def settle(self, i: Inputs) -> None:
        """Mask and kernel. Raises NotSupported where the one that was asked for is not on this device."""
        torch, shape, q = self.torch, self.shape, i["q"]
        if self.part:
            return
        self.part = q.device.type
        if self.asked in GPU_ONLY and self.part != "cuda":
            raise NotSupported(f"PyTorch has its {self.asked} attention on CUDA and ROCm devices alone")
        if self.asked == "flex":
            self.compiled = _flex(torch, shape, q.device)
            return
        flash_window = self.asked == "flash" and self.part == "cuda" and shape.causal  # windows and late queries as they are
        if shape.masked and not flash_window:
            unseen = ~visible(torch, shape, torch.arange(shape.query, device=q.device))
            self.bias = torch.zeros(unseen.shape, dtype=q.dtype, device=q.device).masked_fill_(unseen, float("-inf"))
        if self.asked:
            return
        k, v = self.keys(i)
        self.backend = NUMBERED[torch._fused_sdp_choice(q, k, v, self.bias, 0.0, shape.plain_causal, **self.shared)]
        if shape.backward and self.backend not in ("flash", "efficient", "cudnn"):
            raise NotSupported("PyTorch has no gradient kernel for this attention: autograd would run its forward pass again")

    def forward_pass(self, i: Inputs, make: Maker) -> dict[str, Any]:
        """Outputs and log-sums of the forward pass, and a gradient to send back."""
        if self.backend == "math":
            raise NotSupported("PyTorch's plain attention has no gradient kernel: autograd would run its forward pass again")
        if self.bias is None and self.shape.masked:
            raise NotSupported("PyTorch's flash attention takes gradients of windows and late queries through a mask alone")
        o, sums, *rest = self._direct(i["q"], *self.keys(i))
        self.rest = tuple(rest)
        shape = self.shape
        grad = make.normal(shape.batch, shape.query, shape.heads, shape.values, dtype=shape.dtype).transpose(1, 2)
        return {"o": o, "sums": sums, "grad": grad}

    # ------------------------------------------------------------ launch

    def forward(self, i: Inputs) -> Any:
        k, v = self.keys(i)
        if self.compiled is not None:
            return self.compiled(i["q"], k, v)
        if self.asked:
            return self._direct(i["q"], k, v)[0]
        attend = self.torch.nn.functional.scaled_dot_product_attention
        return attend(i["q"], k, v, attn_mask=self.bias, is_causal=self.shape.plain_causal, **self.shared)

    def _direct(self, q: Any, k: Any, v: Any) -> Any:
        """One kernel, past PyTorch's own choice."""
        ops, shape, causal = self.torch.ops.aten, self.shape, self.shape.plain_causal
        if self.backend == "math":
            return ops._scaled_dot_product_attention_math(q, k, v, self.bias, 0.0, causal, None, **self.shared)
        if self.backend == "efficient":
            return ops._scaled_dot_product_efficient_attention(q, k, v, self._wide_bias(), shape.backward, 0.0, causal)
        if self.backend == "cudnn":
            return ops._scaled_dot_product_cudnn_attention(q, k, v, self._wide_bias(), shape.backward, 0.0, causal, False)
        if self.part == "cpu":
            return ops._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=self.bias)
        if not shape.masked:
            return ops._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False)
        if self.bias is not None:
            raise NotSupported("PyTorch's flash attention on GPUs takes no mask")
        # The kernel aligns a causal mask with the last key, and counts a window to the left of a query without the query itself.
        left, tokens_first = (shape.window - 1 if shape.window else -1), [x.transpose(1, 2) for x in (q, k, v)]
        found = ops._flash_attention_forward(
            *tokens_first, None, None, shape.query, shape.kv, 0.0, True, False, window_size_left=left, window_size_right=0
        )
        return (found[0].transpose(1, 2),)

    def _wide_bias(self) -> Any:
        shape = self.shape
        return None if self.bias is None else self.bias.expand(shape.batch, shape.heads, shape.query, shape.kv)

    def backward(self, i: Inputs) -> tuple[Any, ...]:
        """Gradients of queries, keys and values."""
        ops, causal, (k, v) = self.torch.ops.aten, self.shape.plain_causal, self.keys(i)
        grad, q, o, sums, rest = i["grad"], i["q"], i["o"], i["sums"], self.rest
        if self.backend == "efficient":
            seeds, bias, wanted = rest[:2], self._wide_bias(), [True, True, True, False]
            found = ops._scaled_dot_product_efficient_attention_backward(grad, q, k, v, bias, o, sums, *seeds, 0.0, wanted, causal)
            return tuple(found[:3])
        if self.backend == "cudnn":
            seeds, bias = rest[4:6], self._wide_bias()
            return tuple(ops._scaled_dot_product_cudnn_attention_backward(grad, q, k, v, o, sums, *seeds, bias, *rest[:4], 0.0, causal))
        if self.part == "cpu":
            run = ops._scaled_dot_product_flash_attention_for_cpu_backward
            return tuple(run(grad, q, k, v, o, sums, 0.0, causal, attn_mask=self.bias))
        return tuple(ops._scaled_dot_product_flash_attention_backward(grad, q, k, v, o, sums, *rest[:4], 0.0, causal, *rest[4:6]))


def _flex(torch: Any, shape: AttentionShape, device: Any) -> Callable[[Any, Any, Any], Any]:
    """PyTorch's flex attention, compiled for this shape at the first call: on GPUs by Triton, on CPUs by a C++ compiler."""
    try:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    except ImportError as error:
        raise NotSupported(f"PyTorch {torch.__version__} has no flex attention; it came with 2.5") from error
    after, window = shape.kv - shape.query, shape.window

    def seen(_batch: Any, _head: Any, query: Any, key: Any) -> Any:
        at = query + after
        if not shape.causal:
            first = torch.clamp(at - window // 2, 0, shape.kv - window)
            return (key >= first) & (key < first + window)
        return (key <= at) & (key > at - window) if window else key <= at

    masked = shape.masked or shape.plain_causal
    mask = create_block_mask(seen, None, None, shape.query, shape.kv, device=str(device)) if masked else None
    run = torch.compile(flex_attention, dynamic=False)
    return lambda q, k, v: run(q, k, v, block_mask=mask, enable_gqa=shape.shared)
