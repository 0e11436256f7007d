"""Fitting attention's coefficients: measured rows, and one fit of all of them together: the family's, each library's, each kernel's.

Loss: the logarithm of predicted ÷ measured, smooth between squared and absolute (5 %), rows of 20 µs and less at 0.4; each
coefficient is held near its prior (spread as given), so that what the rows do not show keeps the value that physics suggests. Levenberg's
and Marquardt's steps on the normal equations, which are sparse: a row knows its kernel's coefficients, its library's and the family's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.model.kernels import attention_library
from hotlap.core.model.kernels.attention import Cases, read
from hotlap.core.model.kernels.attention_library import LibraryFamily
from hotlap.core.model.kernels.base import Chip, Coefficients, Floats
from research.fit import data as measured_data
from research.fit import scores
from research.fit.data import FOLDERS, Rows

FILES = {"prefill": "context_attention_perf.parquet", "decode": "generation_attention_perf.parquet"}
COLUMNS = {"batch": "batch_size", "query": "isl", "heads": "num_heads", "kv_heads": "num_key_value_heads", "head_dim": "head_dim"}
CACHE_APART = (0, 16)  # the version of vLLM since which attention does not write the cache
LATER_COLLECTOR = (0, 24)  # the first that is timed with that
BACKENDS = ("vllm_flash_attn", "vllm_flashinfer")  # as the earlier collector names them
SHORT_S, SHORT_WEIGHT = 20e-6, 0.4  # the target counts what is longer
SOFT = 0.05  # of the logarithm, where the loss turns from squared to absolute
HOLD = 0.5  # rows' residuals of 5 % that a coefficient one spread away from its prior weighs as much as
SAMPLE = 1500  # rows of one source and type on one machine
STEPS = 80


class Prior(NamedTuple):
    """Where a coefficient starts and how far it may go: as a factor (`log`) or as a difference."""

    value: float
    spread: float
    log: bool = True
    low: float = -np.inf
    high: float = np.inf


class Priors(NamedTuple):
    """Whose coefficient is what. A kernel has those that its rows can show: the others are left to the family's."""

    family: Mapping[str, Prior]
    library: Mapping[str, Prior]
    kernel: Mapping[str, Prior]
    shows: Mapping[str, Callable[[Any, Cases], bool]]  # by name: traits and rows of a kernel for which it is a coefficient of its own
    kernels: Mapping[str, Mapping[str, Prior]]  # by kernel: where its prior is another
    fixed: tuple[str, ...] = ()  # at the prior in kernels that have none of their own

    def all(self) -> dict[str, Prior]:
        return {**self.family, **self.library, **self.kernel}


class Part(NamedTuple):
    """Rows of one kernel of one library on one machine, ready to be predicted."""

    kernel: str
    groups: tuple[str, ...]  # of its coefficients, the later ones first
    chip: Chip
    cases: Cases
    seconds: Floats
    weight: Floats


# ---------------------------------------------------------------- rows and machines


def chip(slug: str) -> Chip:
    """The machine table's figures at its highest clock; burst measurements, power not considered."""
    return scores.fastest(slug)


def rows(gpu: str, root: Path, phase: str) -> Rows:
    """All measured calls of one machine. `kv`: keys of one sequence, the new tokens included."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = sorted((root / FOLDERS[gpu] / "attention").glob(f"**/{FILES[phase]}"))
    tables = [pq.read_table(file) for file in files]
    one = {n for table in tables for n in table.column_names}
    data = {name: _column(name, tables, pa) for name in one}
    params: dict[str, NDArray[Any]] = {ours: data[theirs] for ours, theirs in COLUMNS.items()}
    params["kv"] = data["step"] + 1 if phase == "decode" else params["query"]
    params["window"] = np.nan_to_num(data.get("window_size", np.zeros(len(params["kv"]))))
    params["dtype"], params["kv_dtype"] = data["attn_dtype"].astype(str), data["kv_cache_dtype"].astype(str)
    params["cache_write"] = writes(data["framework"].astype(str), data["kernel_source"].astype(str), data["version"].astype(str))
    power = data.get("power", np.full(len(params["kv"]), np.nan)).astype(float)
    version, kernel = (data[name].astype(str) for name in ("version", "kernel_source"))
    published = [f"{a.lower()} {b}/{c}" for a, b, c in zip(data["framework"].tolist(), version.tolist(), kernel.tolist(), strict=True)]
    groups = measured_data.keys(params, ("heads", "kv_heads", "head_dim"))
    source = np.array(published)
    return Rows(gpu, params, data["latency"] * 1e-3, power, source, *measured_data.split(groups), source)


def writes(framework: NDArray[np.str_], source: NDArray[np.str_], version: NDArray[np.str_]) -> Floats:
    """Whether the timed call writes the new keys and values. vLLM took that out of the backends' `forward` (vllm-project/vllm#25954, in
    0.16). aiconfigurator's `collector/vllm/collect_attn.py` went on timing `forward` alone while it called the kernel by its backend's
    name (commit 15cb360f); the later one, which says "vllm_flash_attn_fa3", times `do_kv_cache_update` before it."""
    def timed(framework: str, version: str, source: str) -> bool:
        number = tuple(map(int, version.split(".")[:2])) if framework.lower() == "vllm" else (0, 0)
        return number < CACHE_APART or (number >= LATER_COLLECTOR and source not in BACKENDS)

    rows = zip(framework.tolist(), version.tolist(), source.tolist(), strict=True)
    known: dict[tuple[str, str, str], bool] = {}
    return np.array([known.setdefault(row, timed(*row)) for row in rows], dtype=float)


def _column(name: str, tables: Sequence[Any], pa: Any) -> NDArray[Any]:
    return np.concatenate(
        [t.column(name).to_numpy(zero_copy_only=False) if name in t.column_names else np.full(t.num_rows, np.nan) for t in tables]
    )


def modelled(r: Rows, family: LibraryFamily) -> NDArray[np.bool_]:
    """Not the calls that are excluded by name."""
    c = read(r.params, family.phase)
    kernels = attention_library.choose(r.implementation, c, chip(r.gpu), family.phase).kernel
    return np.broadcast_to(np.logical_not(attention_library.excluded(kernels, c)), len(r.seconds))


def tags(r: Rows, family: LibraryFamily) -> NDArray[np.str_]:
    """Rows of a build's defect: vLLM's FA4 with a head dimension of 512 and one new token (`attention_library.excluded`)."""
    return np.where(modelled(r, family), "", "FA4, head 512, one token")


# ---------------------------------------------------------------- the fit


class Variable(NamedTuple):
    """One number of the fit."""

    group: str  # "default", a library, or a kernel
    name: str
    prior: Prior


def fit(family: LibraryFamily, priors: Priors, data: Sequence[Rows]) -> dict[str, dict[str, float]]:
    """Coefficients by group from the rows that are not held out. Deterministic."""
    parts = list(_parts(family, data))
    variables = _variables(family, priors, parts)
    x = _solve(family, priors, parts, variables)
    fitted: dict[str, dict[str, float]] = {"default": {}}
    for v, value in zip(variables, x, strict=True):
        fitted.setdefault(v.group, {})[v.name] = _decoded(v.prior, value)
    for name, prior in {**priors.library, **priors.kernel}.items():  # of a kernel that was not fitted: the mean of those that were
        own = [_coded(prior, values[name]) for group, values in fitted.items() if group != "default" and name in values]
        fitted["default"][name] = _decoded(prior, float(np.mean(own))) if own and name not in priors.fixed else prior.value
    return {group: {name: float(f"{value:.4g}") for name, value in values.items()} for group, values in fitted.items()}


def _parts(family: LibraryFamily, data: Sequence[Rows]) -> Iterator[Part]:
    for r in data:
        train = r.where(~r.held & modelled(r, family))
        types = np.char.add(np.char.add(train.source, train.params["dtype"]), train.params["kv_dtype"])
        train = train.where(np.sort(np.concatenate([_sampled(np.flatnonzero(types == one)) for one in np.unique(types)])))
        cases, machine = read(train.params, family.phase), chip(r.gpu)
        runs = attention_library.choose(train.implementation, cases, machine, family.phase)
        weight = np.where(train.seconds > SHORT_S, 1.0, SHORT_WEIGHT)
        kernels, libraries = (np.broadcast_to(np.asarray(names), len(train.seconds)) for names in (runs.kernel, runs.library))
        for kernel, library in sorted(set(zip(kernels.tolist(), libraries.tolist(), strict=True))):
            mask = (kernels == kernel) & (libraries == library)
            groups = attention_library.groups_of(family, kernel, library)
            yield Part(kernel, groups, machine, cases.where(mask), train.seconds[mask], weight[mask])


def _sampled(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """At most SAMPLE of them, in an order that has nothing to do with their sizes."""
    return places[np.random.default_rng(0).permutation(len(places))[:SAMPLE]]


def _variables(family: LibraryFamily, priors: Priors, parts: Sequence[Part]) -> list[Variable]:
    variables = [Variable("default", name, prior) for name, prior in priors.family.items()]
    variables += [Variable(one, name, prior) for one in sorted({p.groups[-2] for p in parts}) for name, prior in priors.library.items()]
    for kernel in sorted({group for p in parts for group in p.groups[:-2]}):
        traits, rows = family.kernels[kernel], [p.cases for p in parts if kernel in p.groups]
        for name, prior in {**priors.kernel, **priors.kernels.get(kernel, {})}.items():
            shows = priors.shows.get(name)
            if (name in traits.own if traits.own else shows is None or any(shows(traits, c) for c in rows)):
                variables.append(Variable(kernel, name, prior))
    return variables


def _solve(family: LibraryFamily, priors: Priors, parts: Sequence[Part], variables: Sequence[Variable]) -> Floats:
    centre = np.array([_coded(v.prior, v.prior.value) for v in variables])
    hold = HOLD * SOFT**2 / np.array([v.prior.spread for v in variables]) ** 2 * 10
    number = {(v.group, v.name): n for n, v in enumerate(variables)}
    places = [{name: n for group in reversed(p.groups) for (of, name), n in number.items() if of == group} for p in parts]
    fixed = {name: prior.value for name, prior in priors.all().items()}
    x, damp = centre.copy(), 1e-2
    loss = _loss(family, parts, places, variables, fixed, x) + float(hold @ (x - centre) ** 2)
    for _ in range(STEPS):
        matrix, gradient = _normal(family, parts, places, variables, fixed, x)
        matrix[np.diag_indices(len(x))] += hold
        gradient = gradient + hold * (x - centre)
        for _ in range(12):
            step = np.linalg.solve(matrix + damp * np.diag(np.diag(matrix)), gradient)
            trial = x - step / max(1.0, float(np.abs(step).max()))
            after = _loss(family, parts, places, variables, fixed, trial) + float(hold @ (trial - centre) ** 2)
            if after < loss:
                break
            damp *= 4
        else:
            break
        done, x, loss, damp = loss - after < 1e-4 * loss, trial, after, max(damp / 3, 1e-3)
        if done:
            break
    return x


def _normal(
    family: LibraryFamily, parts: Sequence[Part], places: Sequence[Mapping[str, int]], variables: Sequence[Variable],
    fixed: Mapping[str, float], x: Floats,
) -> tuple[Floats, Floats]:
    """JᵀJ and Jᵀr of all rows, by differences."""
    matrix, gradient = np.zeros((len(x), len(x))), np.zeros(len(x))
    for part, place in zip(parts, places, strict=True):
        here = np.array(list(place.values()))
        residual = _residual(family, part, place, variables, fixed, x)
        slopes = np.empty((len(residual), len(here)))
        for n, i in enumerate(here):
            moved = x.copy()
            moved[i] += 1e-4
            slopes[:, n] = (_residual(family, part, place, variables, fixed, moved) - residual) / 1e-4
        matrix[np.ix_(here, here)] += slopes.T @ slopes
        gradient[here] += slopes.T @ residual
    return matrix, gradient


def _loss(
    family: LibraryFamily, parts: Sequence[Part], places: Sequence[Mapping[str, int]], variables: Sequence[Variable],
    fixed: Mapping[str, float], x: Floats,
) -> float:
    return float(sum(np.sum(_residual(family, p, place, variables, fixed, x) ** 2) for p, place in zip(parts, places, strict=True)))


def _residual(
    family: LibraryFamily, part: Part, place: Mapping[str, int], variables: Sequence[Variable], fixed: Mapping[str, float], x: Floats
) -> Floats:
    k = {**fixed, **{name: _decoded(variables[i].prior, x[i]) for name, i in place.items()}}
    seconds = np.asarray(sum(family.plan(part.cases, part.chip, family.kernels[part.kernel], k).parts.values()))
    return _softened(part.weight * (np.log(seconds) - np.log(part.seconds)))


def _softened(off: Floats) -> Floats:
    """Whose square is the loss: squared up to SOFT, absolute beyond."""
    return np.asarray(np.sign(off) * SOFT * np.sqrt(2 * (np.sqrt(1 + (off / SOFT) ** 2) - 1)))


def _coded(prior: Prior, value: float) -> float:
    return float(np.log(value)) if prior.log else value


def _decoded(prior: Prior, value: float) -> float:
    return float(np.clip(np.exp(min(value, 60.0)) if prior.log else value, prior.low, prior.high))


def predicted(family: LibraryFamily, r: Rows, coefficients: Coefficients) -> Floats:
    """Expected seconds of measured rows."""
    return attention_library.estimate(family, r.params, chip(r.gpu), r.implementation, coefficients).seconds
