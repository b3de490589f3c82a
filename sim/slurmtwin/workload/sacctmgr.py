"""sacctmgr command lines and `sacctmgr dump` files into QOS and associations (man sacctmgr).

Understood: add, modify and remove of clusters, accounts, users and QOS; lines of a dump. Lists and other
commands that change nothing are passed over. One cluster only: the one that slurm.conf names.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import fields, replace
from typing import Any, Final

from slurmtwin.contract.cluster import AssocConf, Limits, QosConf
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.workload.option_reader import OptionReader
from slurmtwin.workload.options import split_words
from slurmtwin.workload.sacctmgr_options import (
    ASSOC_OPTIONS,
    CHANGES,
    HARMLESS,
    QOS_OPTIONS,
    match_option,
)  # fmt: skip

_DUMP = re.compile(r"(Cluster|Parent|Account|Project|User|Machine)\s*-\s*(.*)\Z", re.IGNORECASE)
_DUMP_PART = re.compile(r"(?:'([^']*)'|([^:=]+))(?:=(?:'([^']*)'|\"([^\"]*)\"|([^:]*)))?(?::|\Z)")
_PAIR = re.compile(r"([A-Za-z]+)\s*([+-]?)=\s*(.*)\Z", re.DOTALL)
_VERBS: Final = {
    "add": "add", "create": "add", "modify": "modify", "update": "modify", "mod": "modify", "delete": "remove",
    "remove": "remove", "del": "remove", "rem": "remove",
}  # fmt: skip
_SILENT: Final = (
    "list", "show", "dump", "archive", "clear", "reconfigure", "ping", "help", "version", "verbose", "quiet", "exit",
    "quit", "oneliner", "readonly", "associations", "problem", "-i", "-q",
)  # fmt: skip
_ENTITIES: Final = {
    "account": "account", "accounts": "account", "acct": "account", "user": "user", "users": "user", "qos": "qos",
    "cluster": "cluster", "clusters": "cluster",
}  # fmt: skip
_NAME_KEYS: Final = ("name", "names")
Sets = list[tuple[str, str, str]]
"""(option, operator, text) in the order written."""


def read_accounting(
    lines: tuple[tuple[Where, str], ...], cluster: str, reader: OptionReader
) -> tuple[tuple[QosConf, ...], tuple[AssocConf, ...]]:
    """All QOS and associations that these lines leave behind; none for no lines."""
    if not lines:
        return (), ()
    database = _Database(cluster, reader)
    for where, text in lines:
        try:
            database.run(text, where)
        except InputError as error:
            if error.where is not None:
                raise
            raise error.at(where) from error
    return tuple(database.qos.values()), tuple(database.assocs.values())


class _Database:
    """What slurmdbd would hold after the lines so far."""

    def __init__(self, cluster: str, reader: OptionReader) -> None:
        self.cluster = cluster
        self.reader = reader
        self.qos: dict[str, QosConf] = {"normal": QosConf(name="normal")}
        self.assocs: dict[tuple[str, str, str], AssocConf] = {}
        self.parent = "root"

    def run(self, text: str, where: Where) -> None:
        """One line: a command, or a line of a dump."""
        dumped = _DUMP.match(text)
        if dumped:
            self._dump_line(dumped[1].lower(), dumped[2], where)
            return
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise InputError(f"cannot read the command: {error}", where) from error
        words = [w for w in words if w not in ("sacctmgr", "-i", "--immediate", "-Q", "--quiet")]
        if not words or words[0].lower() in _SILENT:
            return
        verb = _VERBS.get(words[0].lower())
        entity = _ENTITIES.get(words[1].lower()) if len(words) > 1 else None
        if verb is None:
            raise InputError(f"unknown sacctmgr command {words[0]!r}", where, "add, modify or remove")
        if entity is None:
            what = words[1] if len(words) > 1 else ""
            self.reader.refuse("sacctmgr", what or "nothing", "", where, "only account, user, qos and cluster are")
            return
        self._command(verb, entity, _join_operators(words[2:]), where)

    def _command(self, verb: str, entity: str, words: list[str], where: Where) -> None:
        conditions, sets = _split(verb, entity, words, where)
        if entity == "cluster":
            self._cluster(verb, conditions + sets, where)
        elif entity == "qos":
            self._qos(verb, conditions, sets, where)
        elif entity == "account":
            self._account(verb, conditions, sets, where)
        else:
            self._user(verb, conditions, sets, where)

    def _cluster(self, verb: str, sets: Sets, where: Where) -> None:
        names = [n.lower() for n in _take(sets, (*_NAME_KEYS, "clusters"))]
        if any(name != self.cluster.lower() for name in names):
            self.reader.warn(where, f"cluster {', '.join(names)} is not {self.cluster}: passed over")
            return
        if verb == "remove":
            raise InputError("the cluster itself cannot be removed", where)
        root = self.assocs.get(("root", "", ""), AssocConf(account="root", parent=""))
        self.assocs[("root", "", "")] = self._set(root, sets, where)

    def _qos(self, verb: str, conditions: Sets, sets: Sets, where: Where) -> None:
        names = [n.lower() for n in _take(conditions, (*_NAME_KEYS, "qos", "qoslevel"))]
        if verb == "remove":
            for name in names:
                self.qos.pop(name, None)
            return
        if verb == "add":
            if not names:
                raise InputError("add qos needs a name", where)
            sets = conditions + sets
        for name in names or list(self.qos):
            if verb == "modify" and name not in self.qos:
                raise InputError(f"unknown QOS {name}", where, f"known: {', '.join(self.qos)}")
            self.qos[name] = self._set(self.qos.get(name, QosConf(name=name)), sets, where)

    def _account(self, verb: str, conditions: Sets, sets: Sets, where: Where) -> None:
        names = [n.lower() for n in _take(conditions, (*_NAME_KEYS, "accounts", "account", "acct"))]
        if verb == "add":
            if not names:
                raise InputError("add account needs a name", where)
            sets = conditions + sets
            parent = (_take(sets, ("parent", "parents")) or ["root"])[-1].lower()
            if parent != "root" and (parent, "", "") not in self.assocs:
                raise InputError(f"unknown parent account {parent}", where)
            for name in names:
                made = AssocConf(account=name, parent=parent)
                self.assocs[(name, "", "")] = self._set(self.assocs.get((name, "", ""), made), list(sets), where)
            return
        if verb == "remove":
            gone = set(names)
            while more := {a.account for a in self.assocs.values() if a.parent in gone and not a.user} - gone:
                gone |= more
            self.assocs = {key: a for key, a in self.assocs.items() if a.account not in gone}
            return
        parent_list = _take(sets, ("parent", "parents"))
        for key, assoc in list(self.assocs.items()):
            if not assoc.user and (not names or assoc.account in names):
                changed = self._set(assoc, sets, where)
                self.assocs[key] = replace(changed, parent=parent_list[-1].lower()) if parent_list else changed

    def _user(self, verb: str, conditions: Sets, sets: Sets, where: Where) -> None:
        if verb == "add":
            self._add_users(conditions + sets, where)
            return
        names = _take(conditions, (*_NAME_KEYS, "users", "user"))
        accounts = [a.lower() for a in _take(conditions, ("accounts", "account", "acct"))]
        partitions = _take(conditions, ("partitions", "partition"))
        default = _take(sets, ("defaultaccount",))
        for key, assoc in list(self.assocs.items()):
            if not assoc.user or (names and assoc.user not in names) or (accounts and assoc.account not in accounts):
                continue
            if partitions and assoc.partition not in partitions:
                continue
            if verb == "remove":
                del self.assocs[key]
                continue
            changed = self._set(assoc, list(sets), where)
            if default:
                changed = replace(changed, is_default=assoc.account == default[-1].lower())
            self.assocs[key] = changed

    def _add_users(self, sets: Sets, where: Where) -> None:
        users = _take(sets, (*_NAME_KEYS, "users", "user"))
        default = [a.lower() for a in _take(sets, ("defaultaccount",))]
        accounts = [a.lower() for a in _take(sets, ("accounts", "account", "acct"))] or default
        partitions = _take(sets, ("partitions", "partition")) or [""]
        if not users or not accounts:
            raise InputError("add user needs a name and an account", where, "add user name=u account=a")
        for user in users:
            first = default[-1] if default else "" if self._has_default(user) else accounts[0]
            for account in dict.fromkeys([*accounts, *default]):
                if (account, "", "") not in self.assocs and account != "root":
                    raise InputError(f"unknown account {account}", where, "add account comes first")
                for partition in partitions:
                    key = (account, user, partition)
                    made = AssocConf(account=account, user=user, partition=partition, parent=account)
                    changed = self._set(self.assocs.get(key, made), list(sets), where)
                    self.assocs[key] = replace(changed, is_default=account == first or changed.is_default)

    def _has_default(self, user: str) -> bool:
        return any(a.user == user and a.is_default for a in self.assocs.values())

    def _set(self, record: Any, sets: Sets, where: Where) -> Any:
        """The record with options applied."""
        table = QOS_OPTIONS if isinstance(record, QosConf) else ASSOC_OPTIONS
        for name, operator, text in sets:
            option = match_option(name, table)
            refused = match_option(name, CHANGES) if option is None or option.lower() != name.lower() else None
            if refused is not None and (option is None or refused.lower() == name.lower()):
                self.reader.refuse("sacctmgr", refused, text, where, CHANGES[refused])
            elif option is not None:
                record = _assign(record, option, table[option], operator, text)
            elif match_option(name, HARMLESS) is None and not self.reader.waived("sacctmgr", name):
                raise InputError(f"unknown option {name} in sacctmgr", where, "see man sacctmgr")
        return record

    def _dump_line(self, kind: str, rest: str, where: Where) -> None:
        """One line of `sacctmgr dump`: Kind - 'name':Option=value:..."""
        parts: list[tuple[str, str]] = []
        end = 0
        for found in _DUMP_PART.finditer(rest):
            if found.start() != end or not found[0]:
                break
            end = found.end()
            key = found[1] if found[1] is not None else found[2]
            value = next((g for g in (found[3], found[4], found[5]) if g is not None), "")
            parts.append((key.strip(), value))
        if end != len(rest) or not parts:
            raise InputError(f"not a line of a dump: {rest[end:][:40]!r}", where, "Account - 'name':Fairshare=1")
        name, sets = parts[0][0], [(key, "", value) for key, value in parts[1:]]
        if kind in ("cluster", "machine"):
            self._cluster("add", [("name", "", name), *sets], where)
        elif kind == "parent":
            self.parent = name.lower()
        elif kind in ("account", "project"):
            self._account("add", [("name", "", name), ("parent", "", self.parent)], sets, where)
        else:
            self._add_users([("name", "", name), ("account", "", self.parent), *sets], where)


def _assign(record: Any, option: str, setter: tuple[str, Any], operator: str, text: str) -> Any:
    field, read = setter
    try:
        value = read(_signed(record, field, operator, text) if field == "qos" else text)
    except InputError as error:
        raise InputError(f"{option}: {error.message}", error.where, error.hint) from error
    if not field.startswith("."):
        if operator and isinstance(value, (tuple, frozenset)) and field != "qos":
            old = getattr(record, field)
            rest = [v for v in old if v not in value]
            value = type(value)(rest if operator == "-" else [*rest, *value])
        return replace(record, **{field: value})
    name = field[1:]
    if isinstance(value, tuple):  # TRES limits add to the ones before, name by name
        amounts = dict(getattr(record.limits, name)) | dict(value)
        value = tuple((tres, amount) for tres, amount in amounts.items() if amount >= 0)
    assert name in {f.name for f in fields(Limits)}
    return replace(record, limits=replace(record.limits, **{name: value}))


def _signed(record: Any, field: str, operator: str, text: str) -> str:
    """The list after `qos+=a`, `qos-=a`, or `qos=+a,-b`.

    An association without a list of its own keeps the signs: they change what it inherits (delta_qos in the database).
    """
    words = [word.lower() for word in split_words(text)]
    if not operator and not any(word[:1] in "+-" and word != "-1" for word in words):
        return ",".join(words)
    now = list(getattr(record, field))
    relative = isinstance(record, AssocConf) and not any(n[:1] not in "+-" for n in now)
    for word in words:
        sign, name = (word[0], word[1:]) if word[:1] in "+-" else (operator or "+", word)
        now = [n for n in now if n.lstrip("+-") != name]
        if relative:
            now.append(sign + name)
        elif sign == "+":
            now.append(name)
    return ",".join(now)


def _join_operators(words: list[str]) -> list[str]:
    """`a = b` written with spaces becomes `a=b`."""
    out: list[str] = []
    for word in words:
        glue = out and (re.match(r"[+-]?=", word) or re.search(r"[A-Za-z][+-]?=\Z", out[-1]))
        if glue:
            out[-1] += word
        else:
            out.append(word)
    return out


def _split(verb: str, entity: str, words: list[str], where: Where) -> tuple[Sets, Sets]:
    """(conditions or names, settings) of a command; the words `set` and `where` switch between them."""
    conditions: Sets = []
    sets: Sets = []
    target = conditions
    for word in words:
        if word.lower() in ("set", "where"):
            target = sets if word.lower() == "set" else conditions
            continue
        pair = _PAIR.match(word)
        if pair:
            target.append((pair[1], pair[2], pair[3].strip()))
        else:
            conditions.append(("name", "", word))  # a bare word is a name, even behind `set`
    if verb == "modify" and not sets:
        raise InputError(f"modify {entity} needs set OPTION=VALUE", where)
    return conditions, sets


def _take(sets: Sets, names: tuple[str, ...]) -> list[str]:
    """Remove the named entries and return the words of their lists."""
    found: list[str] = []
    for entry in list(sets):
        if entry[0].lower() in names:
            sets.remove(entry)
            found += split_words(entry[2])
    return found
