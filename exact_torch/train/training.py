"""The state of a training run, and one step of it.

Nothing random runs on from step to step: the order of a pass, the augmentation of an example in it
and the noise of a step are each drawn from a seed of their own.  So a state needs no generators, a
run that goes on from a checkpoint is the run that was never stopped, and what is drawn does not
depend on the number of processes.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from exact_torch import models, optim
from exact_torch.data import Dataset, augment, batches
from exact_torch.exact_module import ExactLoss
from exact_torch.grad_norm import GradientNormalizer
from exact_torch.heads import GaussianScores
from exact_torch.train import judgement
from exact_torch.train.config import Config
from exact_torch.train.distributed import Processes
from exact_torch.train.mixing_inputs import Mixed, mix
from exact_torch.train.network import loss_of, network_of

__all__ = ["Training", "seed_of"]

_MEASURES = ("loss", "accuracy", "expected_accuracy", "sigma", "gradient_norm")


def seed_of(*key: int) -> int:
    """A seed for a key of numbers, unlike that of any other key."""
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))


class Training:
    """A network in training: weights, loss, optimiser, and how many steps are done.

    Parameters
    ----------
    config : Config
    dataset : Dataset
    device : torch.device
    processes : Processes
    """

    def __init__(
        self, config: Config, dataset: Dataset, device: torch.device, processes: Processes
    ) -> None:
        self.config, self.dataset, self.device = config, dataset, device
        self.processes = processes
        self.step = 0
        self.best = {"accuracy": -1.0, "epoch": 0}
        self._plan_steps()
        if config.select == "best" and not len(dataset.validation):
            raise ValueError(
                f'select="best" needs a validation set, which validation={config.validation} of '
                f"{len(dataset.train)} examples leaves empty"
            )

        torch.manual_seed(seed_of(config.seed))
        classes = len(dataset.classes)
        self.network: nn.Module = network_of(
            config, classes, dataset.shape, dataset.mean, dataset.std
        )
        if processes.count > 1:
            self.network = models.synchronized(self.network)
        self._format = torch.channels_last if config.channels_last else torch.contiguous_format
        self.network.to(device, memory_format=self._format)
        self.loss = loss_of(config).to(device)
        wrapped = processes.wrap(self.network)
        self._forward = torch.compile(wrapped) if config.compile else wrapped
        self._no_sync = getattr(wrapped, "no_sync", nullcontext)

        trained = nn.ModuleList([self.network, self.loss])
        own: dict[str, Any] = {"betas": config.betas}
        if config.optimizer == "sgd":
            own = {"momentum": config.momentum, "nesterov": config.nesterov}
        self.optimizer = optim.get(
            config.optimizer,
            trained,
            config.lr,
            weight_decay=config.weight_decay,
            decay=config.decay,
            **own,
        )
        self.schedule = optim.lr_schedule(
            config.schedule,
            self.optimizer,
            config.epochs,
            epoch_steps=self.epoch_steps,
            **config.schedule_options,
        )
        self.asam = optim.Asam(self.network, config.rho, config.eta) if config.rho else None
        self.normalizer = GradientNormalizer(self.optimizer)
        if config.gradient == "normalize":
            self.normalizer.attach(self.optimizer)
        self.scaler = torch.amp.GradScaler(device.type, enabled=config.precision == "float16")
        self.ema = None
        if config.ema:
            average = get_ema_multi_avg_fn(config.ema)
            self.ema = AveragedModel(self.network, multi_avg_fn=average, use_buffers=True)
        self._transform = augment.compose(config.augment, dataset.shape[1:])
        self._sums = torch.zeros(len(_MEASURES) + 1, dtype=torch.float64, device=device)

    def _plan_steps(self) -> None:
        config, examples = self.config, len(self.dataset.train)
        parts = config.accumulate * self.processes.count
        if config.batch_size % parts:
            raise ValueError(
                f"batch_size must be a multiple of accumulate={config.accumulate} times the "
                f"{self.processes.count} processes, got {config.batch_size}"
            )
        self.batch_size = min(config.batch_size, examples // parts * parts)
        if not self.batch_size:
            raise ValueError(f"{examples} training examples cannot be cut in {parts} parts")
        self._pass_steps = examples // self.batch_size  # what is left over waits for another pass
        self.epoch_steps = config.epoch_steps or self._pass_steps
        self.steps = self.epoch_steps * config.epochs

    @property
    def epoch(self) -> int:
        """Epochs that are done."""
        return self.step // self.epoch_steps

    @property
    def evaluated(self) -> nn.Module:
        """The network whose accuracy counts."""
        return self.network if self.ema is None else self.ema.module

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """This process's inputs and labels for the steps that are left of the epoch."""
        end = (self.epoch + 1) * self.epoch_steps
        first = self.step
        while first < end:
            number, begin = divmod(first, self._pass_steps)
            last = min(end, (number + 1) * self._pass_steps)
            seed = seed_of(self.config.seed, 1, number)
            generator = torch.Generator().manual_seed(seed)
            order = torch.randperm(len(self.dataset.train), generator=generator)
            order = order[: self._pass_steps * self.batch_size].view(
                self._pass_steps, self.config.accumulate, self.processes.count, -1
            )
            own = order[begin : begin + last - first, :, self.processes.rank].flatten(1)
            workers = self.config.workers
            yield from batches(self.dataset.train, list(own), self._transform, seed, workers)
            first = last

    def advance(self, inputs: Tensor, labels: Tensor) -> None:
        """Take a step."""
        self.loss.set_progress(self.step / self.steps)
        for number, phase in enumerate(self.loss.phases):
            self._gradient(phase, inputs, labels, measure=number == 0)
            if self.asam is not None:
                with self.asam.perturbed():
                    self._gradient(phase, inputs, labels)
            self.scaler.unscale_(self.optimizer)
            trained = [each for group in self.optimizer.param_groups for each in group["params"]]
            norm = nn.utils.get_total_norm([p.grad for p in trained if p.grad is not None])
            if self.config.gradient == "clip":
                nn.utils.clip_grads_with_norm_(trained, self.config.clip, norm)
            if number == 0:
                self._sums[_MEASURES.index("gradient_norm")] += norm * self.config.accumulate
            self.scaler.step(self.optimizer)
            self.scaler.update()
        if self.ema is not None:
            self.ema.update_parameters(self.network)
        self.schedule.step_batch()
        self.step += 1

    def _gradient(
        self, phase: nn.Module, inputs: Tensor, labels: Tensor, measure: bool = False
    ) -> None:
        """Gradients of one of the loss's phases at the weights as they are."""
        self.optimizer.zero_grad()
        accumulate, seed = self.config.accumulate, self.config.seed
        parts = zip(inputs.chunk(accumulate), labels.chunk(accumulate), strict=True)
        for number, (part, own) in enumerate(parts):
            with nullcontext() if number == accumulate - 1 else self._no_sync():
                # Processes draw different noise for their examples, and the same for the loss.
                torch.manual_seed(seed_of(seed, 2, self.step, number, self.processes.rank))
                mixed = self._mixed(part, number)
                scores, sigma = self._scores(part if mixed is None else mixed.inputs)
                torch.manual_seed(seed_of(seed, 3, self.step, number))
                whole = self.processes.gather(scores)
                targets = self.processes.gather(own.to(self.device))
                outputs: Tensor | GaussianScores = whole
                if sigma is not None:
                    sigma = self.processes.gather(sigma)
                    outputs = GaussianScores(whole, sigma)
                value = phase(outputs, targets)
                if mixed is not None:
                    others = self.processes.gather(own[mixed.partners].to(self.device))
                    rest = 1.0 - mixed.share
                    value = mixed.share * value + rest * phase(outputs, others)
                self.scaler.scale(value / accumulate).backward()
            if measure:
                self._measure(value.detach(), whole.detach(), targets, sigma)

    def _mixed(self, inputs: Tensor, number: int) -> Mixed | None:
        """The inputs mixed in pairs, if that is wanted; in the same shares in all processes."""
        if self.config.mix == "none":
            return None
        seed = seed_of(self.config.seed, 5, self.step, number)
        generator = torch.Generator().manual_seed(seed)
        return mix(inputs, self.config.mix, self.config.mix_alpha, generator)

    def _scores(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        inputs = inputs.to(self.device)
        if inputs.ndim == 4:
            inputs = inputs.contiguous(memory_format=self._format)
        with self._autocast():
            outputs = self._forward(inputs)
        if isinstance(outputs, GaussianScores):
            return outputs.mean.float(), torch.as_tensor(outputs.sigma).float()
        return outputs.float(), None

    def _autocast(self) -> Any:
        if self.config.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, getattr(torch, self.config.precision))

    @torch.no_grad()
    def _measure(self, value: Tensor, scores: Tensor, labels: Tensor, sigma: Tensor | None) -> None:
        deviation = judgement.noise(self.loss, scores, sigma)
        shown: Any = torch.nan
        if isinstance(self.loss, ExactLoss):
            shown = self.loss.deviation(scores.shape[1]) if sigma is None else sigma.mean()
        measures = (
            value,
            (scores.argmax(1) == labels).double().mean(),
            judgement.expected(scores, labels, deviation),
            shown,
            0.0,  # the norm of the gradient, which is known when all parts are done
            1.0,
        )
        self._sums += torch.stack(
            [torch.as_tensor(each, device=self.device).double() for each in measures]
        )

    def measured(self) -> dict[str, float | None]:
        """Means of the epoch so far.  A loss that is not finite is an ``ArithmeticError``."""
        *sums, count = self._sums.tolist()
        means = dict(zip(_MEASURES, (each / max(count, 1.0) for each in sums), strict=True))
        if not np.isfinite(means["loss"]):
            raise ArithmeticError(f"the loss is {means['loss']} in step {self.step}")
        return {name: value if np.isfinite(value) else None for name, value in means.items()}

    def start_epoch(self) -> None:
        """Forget what was measured in the epoch before."""
        self._sums.zero_()

    def finish_epoch(self, validation: float | None) -> bool:
        """Move the learning rate; whether this is the best epoch so far."""
        accuracy = self.measured()["accuracy"] if validation is None else validation
        assert accuracy is not None
        self.schedule.step(accuracy)
        if accuracy <= self.best["accuracy"]:
            return False
        self.best = {"accuracy": accuracy, "epoch": self.epoch}
        return True

    def check_weights(self) -> None:
        """Weights that are not finite, of the network or the loss, are an ``ArithmeticError``."""
        for part in (self.network, self.loss):
            for name, parameter in part.named_parameters():
                if not torch.isfinite(parameter).all():
                    raise ArithmeticError(f"{name} is not finite after step {self.step}")

    def state(self) -> dict[str, Any]:
        """All that a checkpoint needs.  Weights that are not finite are an ``ArithmeticError``."""
        self.check_weights()
        state = {name: part.state_dict() for name, part in self._parts().items()}
        return state | {"step": self.step, "best": self.best, "sums": self._sums}

    @property
    def entries(self) -> tuple[str, ...]:
        """Names in what ``state`` returns."""
        return (*self._parts(), "step", "best", "sums")

    def load_state(self, state: dict[str, Any]) -> None:
        """Resume from what ``state`` returned."""
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self.step, self.best, self._sums = state["step"], state["best"], state["sums"]

    def _parts(self) -> dict[str, Any]:
        parts = {
            "network": self.network,
            "loss": self.loss,
            "optimizer": self.optimizer,
            "schedule": self.schedule,
            "normalizer": self.normalizer,
            "scaler": self.scaler,
        }
        return parts if self.ema is None else parts | {"ema": self.ema}
