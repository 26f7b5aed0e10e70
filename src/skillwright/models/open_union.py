"""Unions of settings classes that packages can extend; a tag such as ``kind`` chooses the class."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticKnownError, SchemaValidator, core_schema

from skillwright.core import SkillwrightError
from skillwright.core.settings import Frozen


class OpenUnion(Frozen):
    """The base of a union of settings; a field of this type holds one of its members.

    Members are loaded when their tag is read; the JSON schema, for messages and documentation,
    loads all.
    """

    tag: ClassVar[str]
    """The key that chooses the member."""
    default_tag: ClassVar[str | None] = None
    """What a mapping without the key means; ``None`` refuses it."""

    @classmethod
    def member(cls, name: str) -> "type[OpenUnion]":
        """Load the class of a tag, or raise a `SkillwrightError`."""
        raise NotImplementedError

    @classmethod
    def members(cls) -> "Mapping[str, type[OpenUnion]]":
        """Load the classes of all tags; skip those that fail to load."""
        raise NotImplementedError

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        if "tag" not in vars(cls):  # a member
            return handler(source)
        return core_schema.no_info_plain_validator_function(cls._chosen)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return handler(cls._union(cls.members()) if "tag" in vars(cls) else schema)

    @classmethod
    def _chosen(cls, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise PydanticKnownError("model_attributes_type")
        name = value.get(cls.tag, cls.default_tag)
        if not isinstance(name, str):
            raise PydanticKnownError("union_tag_not_found", {"discriminator": repr(cls.tag)})
        try:
            member = cls.member(name)
        except SkillwrightError as error:
            raise ValueError(str(error)) from error
        true_name = member.model_fields[cls.tag].default  # where the name is an alias
        one = SchemaValidator(cls._union({true_name: member}))
        return one.validate_python({**value, cls.tag: true_name})

    @classmethod
    def _union(cls, members: "Mapping[str, type[OpenUnion]]") -> CoreSchema:
        schemas = {name: each.__pydantic_core_schema__ for name, each in members.items()}
        return core_schema.tagged_union_schema(schemas, discriminator=cls.tag)
