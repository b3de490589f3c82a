"""Reads options with one account of what was not modelled: warnings, errors, waivers and versions.

The rule (workload/slurm_defaults.yaml): a modelled option is converted; a harmless one is passed over;
one that is not modelled is named in a warning; one that changes results is an UnsupportedError unless it
is waived; a word that no version of Slurm has is an InputError with the closest known name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from slurmtwin.contract.errors import InputError, UnsupportedError, Where
from slurmtwin.workload.options import Option, OutOfRangeError, close_name, convert, find_option


@dataclass(frozen=True, slots=True)
class ConfWarning:
    """Something in a configuration that the run goes on without: where, and what it means."""

    where: Where
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


@dataclass(slots=True)
class OptionReader:
    """Classifies and converts options of one configuration for one Slurm version."""

    version: str
    waive: Collection[str] = ()
    warnings: list[ConfWarning] = field(default_factory=list)

    def warn(self, where: Where, message: str) -> None:
        """Note something that the run goes on without."""
        self.warnings.append(ConfWarning(where, message))

    def waived(self, section: str, name: str) -> bool:
        """Whether the user accepted that this option is not modelled: by NAME or SECTION.NAME."""
        names = {word.lower() for word in self.waive}
        return name.lower() in names or f"{section}.{name}".lower() in names

    def look_up(self, section: str, name: str, value: str, where: Where) -> Option | None:
        """The option when it is modelled and this version has it; None when it is to be passed over.

        Raises InputError for an unknown word, UnsupportedError for one that would change results.
        """
        option = find_option(section, name)
        shown = name if section in ("slurm.conf", "NodeName", "PartitionName") else f"{section}={name}"
        if option is None:
            if self.waived(section, name):
                self.warn(where, f"{shown} is unknown, waived")
                return None
            raise InputError(f"unknown option {shown}", where, close_name(section, name))
        if self.version not in option.versions:
            self.warn(where, f"{shown} is no option of Slurm {self.version} (it is of {', '.join(option.versions)})")
            if option.effect == "modelled":
                return None
        if option.effect == "modelled":
            return option
        if option.effect == "not_modelled":
            self.warn(where, f"{shown} is not modelled: {option.why}")
        elif option.effect == "changes" and value.strip().lower() not in option.harmless_values:
            self.refuse(section, option.name, value, where, option.why)
        return None

    def refuse(self, section: str, name: str, value: str, where: Where, why: str) -> None:
        """Raise UnsupportedError for an option that would change results, or warn when it is waived."""
        shown = name if section in ("slurm.conf", "NodeName", "PartitionName") else f"{section}={name}"
        said = f"{shown}={value}" if value and value.lower() != name.lower() else shown
        if self.waived(section, name):
            self.warn(where, f"{said[:80]} is not modelled, waived: {why}")
            return
        hint = f"results would differ from Slurm's; to accept that, waive {name}"
        raise UnsupportedError(f"{said[:80]} is not modelled: {why}", where, hint)

    def value(self, option: Option, text: str, where: Where) -> Any:
        """The option's value. Raises InputError at `where` when the text is none."""
        try:
            return convert(option, text)
        except InputError as error:
            raise InputError(f"{option.name}: {error.message}", where, error.hint) from error

    def parameter(self, option: Option, text: str, where: Where) -> Any:
        """A parameter word's value; one out of range becomes the default, as in Slurm, with a warning."""
        if option.type == "flag":
            return True
        try:
            return self.value(option, text, where)
        except InputError as error:
            if not isinstance(error.__cause__, OutOfRangeError):
                raise
            default = option.default(self.version)
            self.warn(where, f"{option.section}={option.name}: {error.__cause__.message}; Slurm takes {default}")
            return None if default == "derived" else convert(option, str(default))

    def words(self, section: str, words: Iterable[str], where: Where) -> dict[str, Any]:
        """Field -> value of the parameter words of one option; of two the first counts (xstrcasestr)."""
        found: dict[str, Any] = {}
        for word in words:
            name, _, text = word.partition("=")
            option = self.look_up(section, name.strip(), text, where)
            if option is None:
                continue
            if option.type != "flag" and not text.strip():
                raise InputError(f"{section}={name.strip()} needs a value", where, f"{name.strip()}=NUMBER")
            value = self.parameter(option, text.strip(), where)
            if value is not None:
                found.setdefault(option.field, value)
        return found
