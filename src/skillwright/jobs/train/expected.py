"""What is known of a training run before it is played: how much it plays, whether in vain."""

from skillwright.config.run import RunConfig
from skillwright.core import ConfigError
from skillwright.jobs.parts.bench import Sizes


def refuse_hopeless_gate(config: RunConfig, train_tasks: int, val_tasks: int) -> None:
    """Refuse a gate that no candidate could ever pass, before a rollout is paid for.

    The configuration does the same for generated games, whose number it knows.
    """
    problem = config.why_hopeless(train_tasks, val_tasks)
    if problem:
        raise ConfigError(f"{problem}. Add val tasks, or use evaluation.gate.kind 'strict'")


def expected_episodes(config: RunConfig, sizes: Sizes, *, starts_blank: bool) -> int:
    """Return how many episodes a training run is expected to ask for, those that it reuses too.

    It counts no candidate as skipped, and what a gate with several looks takes on average; an
    epoch update that wants pairs of a kind may ask for more.
    """
    evaluation, epochs = config.evaluation, config.train.epochs
    val, test = sizes.val or 0, sizes.test or 0
    gate = evaluation.gate
    judged = gate.expected_rollouts(val) * config.decisions(sizes.train)
    if gate.release is not None:
        judged += gate.release.expected_rollouts(val)
    looks = epochs - 1 if config.optimizer.looks_back else 0
    compared = 2 * min(config.optimizer.slow_update_samples, sizes.train) * looks
    tested = test * skills_tested(config, starts_blank=starts_blank) if evaluation.test else 0
    confirmed = skills_confirmed(config, starts_blank=starts_blank) * evaluation.confirm_tasks
    practised = epochs * practised_in_an_epoch(config, sizes.train)
    return val + practised + judged + compared + tested + confirmed


def skills_confirmed(config: RunConfig, *, starts_blank: bool) -> int:
    """Return how many skills play the confirmation tasks: what was learned, and its baselines."""
    return 2 + (config.evaluation.empty_baseline and not starts_blank)


def skills_tested(config: RunConfig, *, starts_blank: bool) -> int:
    """Return how many skills play the test tasks."""
    confirmed = skills_confirmed(config, starts_blank=starts_blank)
    return confirmed + config.parts_skills + config.evaluation.placebo


def practised_in_an_epoch(config: RunConfig, train_tasks: int) -> int:
    """Return an epoch's rollouts: every task once, and micro-batches left empty are refilled."""
    size = config.train.batch_size
    count = config.train.steps_per_epoch(train_tasks) * config.train.accumulation
    refilled = count - -(-train_tasks // size)
    return train_tasks + refilled * min(size, train_tasks)
