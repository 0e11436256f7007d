"""Field values of NVML, asked in one call; each has its own answer, so each sensor fails on its own.

What a device or driver does not support is not asked again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hotlap.core.errors import MachineError, NotSupported

NOT_AVAILABLE = {0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF}  # NVML_VALUE_NOT_AVAILABLE in 32 and 64 bits
FIELD_TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # nvmlValueType_t, in its order
INVALID_ARGUMENT, FUNCTION_NOT_FOUND = 2, 13  # NVML_ERROR_*
LACKING = {
    3: "the device does not support it",
    FUNCTION_NOT_FOUND: "this driver has no such function",
    25: "this driver has another version of it",
}
Field = tuple[int, int]  # NVML_FI_*, scope: 0, a link, or EVERY_LINK
EVERY_LINK = 0xFFFFFFFF  # scope of the NVLink throughput fields: the sum over all links


class Fields:
    """The fields of one device that are asked together."""

    def __init__(self, binding: Any, handle: Any, wanted: Iterable[Field | int]) -> None:
        self.n, self.handle = binding, handle
        self.wanted = list(dict.fromkeys(_field(one) for one in wanted))
        self.answers: dict[Field, float | Exception] = {}

    def ask(self) -> None:
        """All of them now."""
        asked = [one for one in self.wanted if not isinstance(self.answers.get(one), NotSupported)]
        if not asked:
            return
        try:
            found = self.n.nvmlDeviceGetFieldValues(self.handle, asked)
            self.answers |= {one: self._value(answer) for one, answer in zip(asked, found, strict=True)}
        except (self.n.NVMLError, AttributeError) as error:
            code = getattr(error, "value", None)
            self.answers |= dict.fromkeys(asked, NotSupported(LACKING[code]) if code in LACKING else error)

    def get(self, field: Field | int) -> float:
        """What was answered last. Raises NotSupported, MachineError or the driver's own error."""
        value = self.answers[_field(field)]
        if isinstance(value, Exception):
            raise value
        return known(value)

    def total(self, fields: Iterable[Field | int]) -> float:
        """The sum of several of which each must be there."""
        return sum(self.get(one) for one in fields)

    def _value(self, answer: Any) -> float | Exception:
        if answer.nvmlReturn == INVALID_ARGUMENT:  # of a single field: one that came after this driver
            return NotSupported(f"this driver does not know field {answer.fieldId}")
        if answer.nvmlReturn in LACKING:
            return NotSupported(LACKING[answer.nvmlReturn])
        if answer.nvmlReturn != 0:
            return self.n.NVMLError(answer.nvmlReturn)  # type: ignore[no-any-return]
        if answer.valueType >= len(FIELD_TYPES):
            return MachineError(f"NVML answers field {answer.fieldId} with a value of unknown type {answer.valueType}")
        return float(getattr(answer.value, FIELD_TYPES[answer.valueType]))


class NvLinks:
    """A counter that each NVLink has, summed. The links that answer first are the ones that must go on answering: a sum over
    fewer would look like a counter that went back."""

    def __init__(self, fields: Fields, field: int, count: int) -> None:
        self.fields, self.each = fields, [(field, link) for link in range(count)]
        self.there: list[Field] = []

    def total(self) -> float:
        """Raises NotSupported where no link answers, MachineError where one no longer does."""
        if not self.there:
            self.there = [one for one in self.each if not isinstance(self.fields.answers.get(one), Exception)]
        if not self.there:
            return self.fields.total(self.each)
        for one in self.there:
            if isinstance(self.fields.answers.get(one), NotSupported):
                raise MachineError(f"NVLink {one[1]} no longer answers")
        return self.fields.total(self.there)


def known(value: float) -> float:
    """The value. Raises NotSupported where it is NVML's mark of none."""
    if value in NOT_AVAILABLE:
        raise NotSupported("the driver answers that the value is not available")
    return value


def _field(field: Field | int) -> Field:
    return (field, 0) if isinstance(field, int) else field
