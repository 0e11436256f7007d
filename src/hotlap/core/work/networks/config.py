"""A Hugging Face config.json as a network."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from hotlap.core.errors import InputError, nearest
from hotlap.core.work.networks import layered
from hotlap.core.work.networks.layered import Layered
from hotlap.core.work.networks.model_types import DEFAULTS, KINDS, Config, ConfigReader
from hotlap.core.work.networks.shape import Network

LARGEST_BYTES = 2**22


def read(path: Path) -> Network | Layered:
    """A config.json, or the folder that has one. Raises InputError: the file, what is wrong or missing, and what is valid."""
    file = path / "config.json" if path.is_dir() else path
    config = _content(file)
    name = (path.resolve() if path.is_dir() else file.resolve().parent).name if file.name == "config.json" else file.stem
    return _network(config, str(file), "-".join(name.split()) or "config")


def _content(file: Path) -> Config:
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"there is no file '{file}'; give a config.json of Hugging Face, or the folder that has one") from None
    except OSError as error:
        raise InputError(f"'{file}' cannot be read: {error.strerror or error}") from None
    try:
        found = json.loads(data) if len(data) <= LARGEST_BYTES else None
    except (ValueError, RecursionError) as error:
        raise InputError(f"'{file}' is not JSON: {str(error)[:80]}") from None
    if not isinstance(found, dict):
        raise InputError(f"'{file}' is no config.json: that is one JSON object with 'model_type' or 'architectures'")
    return found


def is_config(content: object) -> bool:
    """Whether JSON is a model's configuration and no trace."""
    return isinstance(content, dict) and ("model_type" in content or "architectures" in content)


def _network(config: Config, where: str, name: str) -> Network | Layered:
    model_type = _type(config, where)
    if model_type not in KINDS and isinstance(config.get("text_config"), dict) and _type(config["text_config"], where) in KINDS:
        return _network(_language_part(config, where), f"{where} (text_config)", name)
    kind = KINDS.get(model_type)
    if kind is None:
        raise InputError(f"{where}: the model_type '{model_type}' is not known; {nearest(model_type, KINDS)}")
    known = {ours: _present(config, key) for ours, key in kind.needs.items()}
    missing = [repr(key) for ours, key in kind.needs.items() if not known[ours]]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        keys = ", ".join(kind.needs.values())
        raise InputError(f"{where}: {model_type} needs {', '.join(missing)}, which {are} missing; its keys: {keys}")
    reader = ConfigReader(config, where)
    values: dict[str, Any] = {ours: reader.whole(key) for ours, key in known.items()}
    values |= {ours: reader.whole(key, low=0) for ours, key in kind.may.items() if config.get(key) is not None}
    values |= kind.always
    values |= kind.more(reader)
    about = f"{model_type} of {where}"
    if kind.base:
        base = layered.load(kind.base)
        assert base is not None
        longest = values.pop("longest", base.longest)
        return base.resized(name, about, longest, **values)
    return _transformer(values, reader, name, about)


def _language_part(config: Config, where: str) -> Config:
    """Of a model of several kinds: its text_config, where transformers leaves out what is as usual."""
    text = config["text_config"]
    shared = {key: config[key] for key in ("quantization_config",) if key in config}
    return {**DEFAULTS.get(_type(text, where), {}), **shared, **text}


def _stored(config: Config) -> str:
    """How the weights lie in the model's files, where its `quantization_config` says so."""
    how = config.get("quantization_config")
    if not isinstance(how, dict):
        return ""
    method, bits = str(how.get("quant_method") or "a quantised type"), how.get("bits")
    return " ".join(method.split())[:40] + (f", {bits} bits" if isinstance(bits, int) else "")


def _present(config: Config, key: str) -> str:
    """The key, or another name of it after a bar, that the config has; empty where it has none."""
    return next((one for one in key.split("|") if config.get(one) is not None), "")


def _transformer(values: dict[str, Any], reader: ConfigReader, name: str, about: str) -> Network:
    heads, hidden = values["heads"], values["hidden"]
    values.setdefault("kv_heads", heads)
    if "head_dim" not in values:
        if hidden % heads:
            raise InputError(f"{reader.where}: a hidden size of {hidden} cannot be cut into {heads} heads, and there is no 'head_dim'")
        values["head_dim"] = hidden // heads
    if heads % values["kv_heads"]:
        raise InputError(f"{reader.where}: {heads} heads cannot share {values['kv_heads']} key-value heads")
    values.setdefault("inter", values.get("expert_inter", 0))
    values.setdefault("tied", reader.flag("tie_word_embeddings", False))
    network = Network(name=name, about=about, source=reader.where, parameters=0.0, stored=_stored(reader.config), **values)
    return replace(network, parameters=float(network.counted))


def _type(config: Config, where: str) -> str:
    """By model_type, else by the class's name: LlamaForCausalLM."""
    if isinstance(config.get("model_type"), str):
        return str(config["model_type"]).replace("-", "_").lower()
    made = config.get("architectures")
    if isinstance(made, list) and made and isinstance(made[0], str):
        plain = {kind.replace("_", ""): kind for kind in KINDS}
        stem = made[0].lower()
        fitting = [one for one in plain if stem.startswith(one)]
        return plain[max(fitting, key=len)] if fitting else made[0]
    raise InputError(f"{where}: no 'model_type' and no 'architectures'; valid model types: {', '.join(KINDS)}")
