"""What runs in vLLM's own environment, which scripts/vllm_check.sh makes, and has none of Hotlap.

    python scripts/vllm_side.py model FOLDER             a small model: Llama's architecture with random weights, a BPE tokenizer trained on
                                                         Python's own library. What it says is noise; how many tokens, and when, is not
    python scripts/vllm_side.py metrics EVENTS RESULTS   events of requests (JSON), through vLLM's own calculate_metrics
    python scripts/vllm_side.py bench ARGUMENT…          `vllm bench serve`, which this build's own command cannot start
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import sysconfig
from pathlib import Path

VOCABULARY, HIDDEN, LAYERS, HEADS, LONGEST = 4096, 128, 2, 2, 2048
TEXT_BYTES = 4 << 20  # of the library's sources, in the order of their names
BEGIN, END = "<s>", "</s>"
CHAT = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant:"


def texts() -> list[str]:
    sources, total = list[str](), 0
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="ignore")
        sources.append(text)
        total += len(text)
        if total > TEXT_BYTES:
            break
    return sources


def model(folder: Path) -> None:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=[BEGIN, END], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts(), trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=BEGIN, eos_token=END, chat_template=CHAT)
    wrapped.save_pretrained(folder)
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=4 * HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=HEADS, max_position_embeddings=LONGEST, bos_token_id=0, eos_token_id=1, dtype="float32",
    )  # fmt: skip
    network = LlamaForCausalLM(config)
    network.save_pretrained(folder)
    print(f"{folder}: {sum(p.numel() for p in network.parameters()) / 1e6:.1f} million weights, {tokenizer.get_vocab_size()} tokens")


def metrics(events: Path, results: Path) -> None:
    """Of each run. `requests`: sent_s, ttft_s, gaps_s, latency_s, input and output tokens, ok; `goodput`: limits in ms by vLLM's names."""
    from vllm.benchmarks.lib.endpoint_request_func import RequestFuncOutput
    from vllm.benchmarks.serve import calculate_metrics

    of_runs = []
    for run in json.loads(events.read_text()):
        outputs = [
            RequestFuncOutput(
                success=row["ok"], start_time=row["sent_s"], ttft=row["ttft_s"], itl=row["gaps_s"], latency=row["latency_s"],
                prompt_len=row["input_tokens"], output_tokens=row["output_tokens"], error="" if row["ok"] else "failed",
            )
            for row in run["requests"]
        ]  # fmt: skip
        numbers, _ = calculate_metrics([], outputs, run["duration_s"], None, run["percentiles"], run["goodput"])
        of_runs.append(dataclasses.asdict(numbers))
    results.write_text(json.dumps(of_runs, default=float))


def bench(arguments: list[str]) -> None:
    from vllm.benchmarks.serve import add_cli_args, main

    parser = argparse.ArgumentParser()
    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser

        parser = FlexibleArgumentParser()
    except ImportError:  # it moves between versions
        pass
    add_cli_args(parser)
    main(parser.parse_args(arguments))


if __name__ == "__main__":
    verb, *rest = sys.argv[1:]
    if verb == "bench":
        bench(rest)
    else:
        {"model": model, "metrics": metrics}[verb](*map(Path, rest))
