"""A torch module as a function of its parameters and of one record.

Torch is imported by functions, at first use: the package works without it.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# Gradients of this many bytes are held at a time, of at most this many records: larger blocks are
# not faster.
BLOCK_BYTES, BLOCK_ROWS = 1 << 26, 256
MIXING = (
    "its statistics are those of all records of a batch, so that one record would change the "
    "gradients of the others. Use GroupNorm or LayerNorm"
)
UPDATED = (
    "it keeps statistics of the records that it has seen. Set track_running_stats=False, or use "
    "GroupNorm"
)
IDLE = (
    "it would have no effect: the module runs in evaluation mode, where its output is a function "
    "of the record alone. Leave it out; the prior and the noise of the chain regularize"
)


@contextlib.contextmanager
def one_torch_thread() -> Iterator[int]:
    """Keep every operation of torch on the thread that asks for it; yield how many it would use.

    Operations on a block take a fraction of a millisecond, and threads that meet after each of them
    wait for each other's time slices on a busy machine: twelve milliseconds each in our
    measurements. Blocks are shared among threads instead.
    """
    import torch

    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield n_threads
    finally:
        torch.set_num_threads(n_threads)


@dataclass(frozen=True, eq=False)
class ModuleFunction:
    """Logits and gradients of a module, record by record.

    Every record is a batch of its own (``torch.func.vmap``), so that nothing of one record can
    enter the gradient or the prediction of another.
    """

    module: Any
    """The torch module with its first weights: public, in evaluation mode, single precision."""
    names: tuple[str, ...]
    """Parameters that the chain moves; the others are constants."""
    shapes: tuple[tuple[int, ...], ...]
    input_shape: tuple[int, ...]
    n_outputs: int

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(math.prod(shape) for shape in self.shapes)

    @property
    def block_rows(self) -> int:
        """Records whose gradients are held at a time."""
        return max(1, min(BLOCK_ROWS, BLOCK_BYTES // (4 * self.size)))

    def start(self) -> np.ndarray:
        """Weights that the module came with, as one vector."""
        own = dict(self.module.named_parameters())
        return np.concatenate(
            [own[name].detach().numpy().astype(np.float64).ravel() for name in self.names]
        )

    def split(self, vectors: np.ndarray) -> dict[str, np.ndarray]:
        """Parameters by name, (..., *shape), as views of vectors (..., p)."""
        parts, start, lead = {}, 0, vectors.shape[:-1]
        for name, shape in zip(self.names, self.shapes, strict=True):
            stop = start + math.prod(shape)
            parts[name] = vectors[..., start:stop].reshape(*lead, *shape)
            start = stop
        return parts

    def with_weights(self, vector: np.ndarray) -> Any:
        """Return a copy of the module that has these weights."""
        import torch

        module = copy.deepcopy(self.module)
        with torch.no_grad():
            own = dict(module.named_parameters())
            for name, value in self.split(vector).items():
                own[name].copy_(torch.from_numpy(np.ascontiguousarray(value)))
        return module

    def gradients(self, position: np.ndarray, rows: np.ndarray, codes: np.ndarray) -> list[Any]:
        """Gradients of the losses, one row per record, an array (m, p_k) per parameter."""
        import torch

        parameters = self._tensors(position, torch.float32)

        def loss(parameters: dict[str, Any], row: Any, code: Any) -> Any:
            logits = torch.func.functional_call(self.module, parameters, (row[None],))[0]
            if self.n_outputs == 1:
                return (torch.nn.functional.softplus(logits) - code * logits).sum()
            return torch.nn.functional.cross_entropy(logits[None], code[None])

        inputs = torch.from_numpy(rows).reshape(-1, *self.input_shape)
        targets = torch.from_numpy(np.ascontiguousarray(codes, dtype=np.int64))
        slopes = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
        found = slopes(parameters, inputs, targets)
        return [found[name].detach().reshape(len(rows), -1).numpy() for name in self.names]

    def _tensors(self, position: np.ndarray, dtype: Any) -> dict[str, Any]:
        import torch

        parts = self.split(np.asarray(position, dtype=np.float64))
        return {name: torch.tensor(part, dtype=dtype) for name, part in parts.items()}

    def logits(self, position: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Logits of rows, (m, K), with K = 1 for two classes.

        In double precision, so that what a row is predicted does not depend on the rows beside it.
        """
        import torch

        module = copy.deepcopy(self.module).double()
        parameters = self._tensors(position, torch.float64)

        def of_row(row: Any) -> Any:
            return torch.func.functional_call(module, parameters, (row[None],))[0]

        # rounded as in fit
        inputs = torch.from_numpy(np.asarray(X, dtype=np.float32)).double()
        blocks = inputs.reshape(-1, *self.input_shape).split(BLOCK_ROWS)
        with one_torch_thread(), torch.no_grad():
            found = torch.cat([torch.func.vmap(of_row)(block) for block in blocks]).numpy()
        return found[:, 1:] - found[:, :1] if self.n_outputs == 2 else found


def make_function(
    module: Any, input_shape: Sequence[int] | None, n_features: int, n_classes: int
) -> ModuleFunction:
    """Check a module, or make one, and find out what it maps; only public numbers decide."""
    try:
        import torch
    except ImportError:
        raise ImportError(
            "DPSGLDTorchClassifier needs PyTorch: pip install 'skdpbayes[torch]'"
        ) from None
    shape = _check_shape(input_shape, n_features)
    if isinstance(module, torch.nn.Module):
        module = copy.deepcopy(module)
    elif callable(module):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # first weights are public, and the same in every fit
            module = module(n_features, n_classes)
    if not isinstance(module, torch.nn.Module):
        raise TypeError(
            "module must be a torch.nn.Module, or a function of the numbers of features and of "
            f"classes that returns one; got {module!r}."
        )
    _refuse_layers(module)
    module = module.to(device="cpu", dtype=torch.float32).eval()
    n_outputs = _outputs(module, shape, n_classes)
    own = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if not own:
        raise ValueError("module has no parameter with requires_grad=True: nothing can be learned.")
    function = ModuleFunction(
        module,
        tuple(own),
        tuple(tuple(parameter.shape) for parameter in own.values()),
        shape,
        n_outputs,
    )
    _check_records(function)
    return function


def _check_shape(input_shape: Any, n_features: int) -> tuple[int, ...]:
    if input_shape is None:
        return (n_features,)
    sides = np.asarray(input_shape)
    if sides.ndim != 1 or sides.dtype.kind not in "iu" or math.prod(sides.tolist()) != n_features:
        raise ValueError(
            "input_shape must list the sides of one record as the module takes it, such as "
            f"(1, 28, 28), with a product of n_features={n_features}; got {input_shape!r}."
        )
    return tuple(sides.tolist())


def _refuse_layers(module: Any) -> None:
    from torch.nn.modules import batchnorm, dropout, instancenorm

    for name, layer in module.named_modules():
        if isinstance(layer, batchnorm._BatchNorm):
            why = MIXING
        elif isinstance(layer, instancenorm._InstanceNorm) and layer.track_running_stats:
            why = UPDATED
        elif isinstance(layer, dropout._DropoutNd) and layer.p > 0.0:
            why = IDLE
        else:
            continue
        raise ValueError(f"module has a {type(layer).__name__} ({name or 'itself'}): {why}.")


def _outputs(module: Any, shape: tuple[int, ...], n_classes: int) -> int:
    import torch

    with torch.no_grad():
        try:
            found = module(torch.zeros((1, *shape)))  # lazy layers learn their shapes here
        except Exception as error:
            raise ValueError(
                f"module does not take a batch of shape {(1, *shape)}: {error}. Set input_shape to "
                "the shape of one record."
            ) from error
    wanted = "(1, 1) or (1, 2)" if n_classes == 2 else f"(1, {n_classes})"
    sizes = {(1, n_classes), (1, 1)} if n_classes == 2 else {(1, n_classes)}
    if not isinstance(found, torch.Tensor) or tuple(found.shape) not in sizes:
        got = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
        raise ValueError(
            f"module must map a batch of shape {(1, *shape)} to logits of shape {wanted} for "
            f"{n_classes} classes; got {got}."
        )
    return int(found.shape[1])


def _check_records(function: ModuleFunction) -> None:
    """Refuse a module that torch cannot differentiate by record, or that remembers records."""
    zero = np.zeros((1, math.prod(function.input_shape)), dtype=np.float32)
    codes = np.array([0, 1])
    start = function.start()
    try:
        beside_one = function.gradients(start, np.concatenate([zero, zero + 1.0]), codes)
        beside_zero = function.gradients(start, np.concatenate([zero, zero]), codes)
    except Exception as error:
        raise ValueError(
            f"torch.func.vmap cannot run this module record by record: {error}"
        ) from error
    for one, other in zip(beside_one, beside_zero, strict=True):
        if not np.array_equal(one[0], other[0], equal_nan=True):
            raise ValueError(
                "the gradient of one record depends on the records that the module has seen: a "
                "module must be a function of its parameters and of its input."
            )
