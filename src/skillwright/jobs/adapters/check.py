"""What `skillwright env check` can ask of an adapter without its data: class, methods, settings."""

import inspect
from collections.abc import Callable, Mapping

from skillwright.config.env import AdapterData, EnvSection
from skillwright.core import ConfigError, SkillwrightError
from skillwright.envs import Check, ContractReport, EnvAdapter
from skillwright.jobs.parts.adapter_load import find_adapter

_SETTINGS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_GIVEN = {
    "build_train_env": ("batch_size", "seed"),
    "build_eval_env": ("env_num", "split", "seed"),
    "rollout": ("env_manager", "skill_content", "out_dir"),
    "reflect": ("results", "skill_content", "out_dir"),
}


def check_adapter_class(name: str, compat: str | None = None) -> ContractReport:
    """Check an adapter class against the contract, as far as that takes no data and no model.

    `skillwright doctor CONFIG` then builds it with its data.
    """
    env = EnvSection.model_validate(
        {"name": name, "compat": compat, "data": AdapterData().model_dump()}
    )
    try:
        found = find_adapter(env)
        if found is None:
            raise ConfigError(f"{name!r} is no EnvAdapter")
    except SkillwrightError as error:
        return ContractReport(name, (Check("is an adapter", False, str(error)),))
    checks = [Check("is an adapter", True, f"{found.__module__}:{found.__qualname__}")]
    for asked, examine in _ASKED.items():
        try:
            checks.append(Check(asked, True, examine(found)))
        except ConfigError as error:
            checks.append(Check(asked, False, str(error)))
    return ContractReport(name, tuple(checks))


def _takes_what_it_is_given(adapter: type[EnvAdapter]) -> str:
    for method, names in _GIVEN.items():
        parameters = [
            one
            for one in inspect.signature(getattr(adapter, method)).parameters.values()
            if one.name != "self"
        ]
        takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
        known = {one.name for one in parameters}
        missing = [] if takes_any else [one for one in names[-2:] if one not in known]
        if missing and method.startswith("build"):
            raise ConfigError(f"{method}() does not take {', '.join(missing)}, which it is given")
        if not takes_any:
            return f"{method}() has no **kwargs; what it does not name, it is not given"
    return "with **kwargs, as documented"


def _names_its_settings(adapter: type[EnvAdapter]) -> str:
    parameters = [
        one for one in inspect.signature(adapter).parameters.values() if one.kind in _SETTINGS
    ]
    needed = [one.name for one in parameters if one.default is inspect.Parameter.empty]
    if not parameters:
        return "its constructor takes none"
    more = f"; env.config must have {', '.join(needed)}" if needed else ""
    return f"{', '.join(one.name for one in parameters)}{more}"


def _reflects(adapter: type[EnvAdapter]) -> str:
    own = adapter.reflect is not EnvAdapter.reflect
    return "by analysts of its own" if own else "by our analysts, who read predictions/<id>"


_ASKED: Mapping[str, Callable[[type[EnvAdapter]], str]] = {
    "takes what it is given": _takes_what_it_is_given,
    "settings": _names_its_settings,
    "reflects": _reflects,
}
