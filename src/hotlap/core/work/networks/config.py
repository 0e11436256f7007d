"""A Hugging Face config.json as a network."""

from __future__ import annotations

import difflib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from hotlap.core.errors import InputError, nearest
from hotlap.core.record import Notice
from hotlap.core.work.networks import layered
from hotlap.core.work.networks.layered import Layered
from hotlap.core.work.networks.model_types import DEFAULTS, KINDS, Config, ConfigReader
from hotlap.core.work.networks.shape import Network

LARGEST_BYTES = 2**22
PARTS = ("vision_config", "audio_config")  # of models of several kinds, which are not described
OWN_NAMES = {"float16": "fp16", "float32": "fp32"}  # of types of weights
ENCODER_KEYS = ("layer_norm_eps", "type_vocab_size")  # that only encoders have
OTHER_KEYS = ("state_size", "ssm_cfg", "mamba_d_state", "kv_lora_rank", "attn_layer_period", "d_state")  # of no plain decoder


def read(path: Path, as_type: str = "") -> Network | Layered:
    """A config.json, or the folder that has one; `as_type`: read as this model_type, whatever it says. `remarks` of the network say how it
    was read, and what is left out. Raises InputError: the file, what is wrong or missing, and what is valid."""
    if as_type and as_type not in KINDS:
        raise InputError(f"--as takes a known model_type, not '{as_type}'; {nearest(as_type, KINDS)}")
    file = path / "config.json" if path.is_dir() else path
    config = _content(file)
    name = (path.resolve() if path.is_dir() else file.resolve().parent).name if file.name == "config.json" else file.stem
    network = _network(config, str(file), "-".join(name.split()) or "config", as_type)
    parts = [key.removesuffix("_config") for key in PARTS if isinstance(config.get(key), dict)]
    gone = f"left out of {network.name}: its {' and '.join(parts)} part; only the language model is described"
    left_out = [Notice("part_left_out", gone)] if parts else []
    return replace(network, remarks=(*network.remarks, *left_out, *_type_of_weights(config, network.name)))


def _type_of_weights(config: Config, name: str) -> list[Notice]:
    """That the file names another type than the one that a step is of where none is asked for."""
    places = [one for one in (config, config.get("text_config")) if isinstance(one, dict)]
    given = next((one[key] for one in places for key in ("torch_dtype", "dtype") if one.get(key)), "bfloat16")
    if given == "bfloat16" or not isinstance(given, str):
        return []
    ways = f"; of {given}: --dtype {OWN_NAMES[given]}" if given in OWN_NAMES else ""
    return [Notice("read_as", f"{name}: its weights are kept in {given[:20]}; steps are of bf16 unless --dtype says otherwise{ways}")]


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
    return isinstance(content, dict) and not content.keys().isdisjoint({"model_type", "architectures", "_class_name"})


def _network(config: Config, where: str, name: str, as_type: str) -> Network | Layered:
    model_type = as_type or _type(config, where)
    text = config.get("text_config")
    if isinstance(text, dict) and (model_type not in KINDS or "hidden_size" not in config):
        return _network(_language_part(config, where), f"{where} (text_config)", name, as_type)
    if model_type in KINDS:
        network = _of_kind(model_type, config, where, name)
        given = config.get("model_type")
        how = f"{name}: read as {as_type}, as was asked; its model_type is {given}"
        read_as = [Notice("read_as", how)] if as_type and given != as_type else []
        return replace(network, remarks=(*network.remarks, *read_as))
    by_fields = _by_fields(model_type, config, where)
    how = f"{name}: the model_type {model_type} is not known; read as {by_fields} by its fields"
    return replace(_of_kind(by_fields, config, where, name), remarks=(Notice("read_as", how),))


def _by_fields(model_type: str, config: Config, where: str) -> str:
    """The known model_type that an unknown one's fields fit. Raises InputError where none does, or more than one."""
    fits = [kind for kind in ("llama", "mixtral", "bert") if all(_present(config, key) for key in KINDS[kind].needs.values())]
    near = difflib.get_close_matches(model_type, KINDS, 1, 0.85)
    valid = (f"did you mean '{near[0]}'? " if near else "") + f"known model types: {', '.join(KINDS)}"
    if not fits or any(key in config for key in OTHER_KEYS):
        raise InputError(f"{where}: the model_type '{model_type}' is not known, and its fields are of no kind that is; {valid}")
    if "mixtral" in fits:
        return "mixtral"
    if "rms_norm_eps" in config and not any(key in config for key in ENCODER_KEYS):
        return "llama"
    raise InputError(f"{where}: the model_type '{model_type}' is not known; its fields fit llama and bert: say which with --as; {valid}")


def _of_kind(model_type: str, config: Config, where: str, name: str) -> Network | Layered:
    kind = KINDS[model_type]
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
    if isinstance(config.get("_class_name"), str):  # of diffusers
        return str(config["_class_name"]).lower()
    if isinstance(config.get("model_type"), str):
        return str(config["model_type"]).replace("-", "_").lower()
    made = config.get("architectures")
    if isinstance(made, list) and made and isinstance(made[0], str):
        plain = {kind.replace("_", ""): kind for kind in KINDS}
        stem = made[0].lower()
        fitting = [one for one in plain if stem.startswith(one)]
        return plain[max(fitting, key=len)] if fitting else made[0]
    raise InputError(f"{where}: no 'model_type' and no 'architectures'; valid model types: {', '.join(KINDS)}")
