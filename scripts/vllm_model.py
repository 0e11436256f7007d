"""A small language model for a real server: Llama's architecture with random weights, and a BPE tokenizer trained on Python's own library.

    python scripts/vllm_model.py FOLDER        in an environment with transformers, as scripts/vllm_check.sh makes

What it says is noise; that each answer has the tokens asked for, and takes its time, is what a load generator needs.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

VOCABULARY, HIDDEN, LAYERS, HEADS, LONGEST = 4096, 128, 2, 2, 2048
TEXT_BYTES = 4 << 20  # of the library's sources, in the order of their names
BEGIN, END = "<s>", "</s>"
CHAT = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant:"


def texts() -> list[str]:
    found, total = list[str](), 0
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="ignore")
        found.append(text)
        total += len(text)
        if total > TEXT_BYTES:
            break
    return found


def write(folder: Path) -> None:
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
    model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    print(f"{folder}: {sum(p.numel() for p in model.parameters()) / 1e6:.1f} million weights, {tokenizer.get_vocab_size()} tokens")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
