"""Which of a pod's objects a kubelet was not let list, from its log."""

from __future__ import annotations

from slurmtwin_e2e.kind.refused_lists import Pod, failed_mounts, refused_lists, summary, told

HEAD = "node kubelet[199]: E1127 18:40:53.269598     199"
LOG = f"""\
1795804853.269667 {HEAD} reflector.go:205] "Failed to watch" err="failed to list *v1.Secret: secrets \\"keys\\" is \
forbidden: User \\"system:node:n1\\" cannot list resource \\"secrets\\" in API group \\"\\" in the namespace \
\\"a\\": no relationship found between node 'n1' and this object" logger="UnhandledError" \
reflector="object-\\"a\\"/\\"keys\\"" \
type="*v1.Secret"
1795804853.300000 {HEAD} reflector.go:205] "Failed to watch" err="failed to list *v1.Secret: secrets \\"keys\\" is \
forbidden" logger="UnhandledError" reflector="object-\\"b\\"/\\"keys\\"" type="*v1.Secret"
1795804853.400000 {HEAD} reflector.go:205] "Failed to watch" err="connection refused" reflector="object-\\"a\\"/\\"x\\""
1795804854.461165 {HEAD} secret.go:189] Couldn't get secret a/keys: failed to sync secret cache: timed out waiting for \
the condition
1795804854.462032 {HEAD} nestedpendingoperations.go:348] MountVolume.SetUp failed for volume "keys" pod "one-0" : \
failed to sync secret cache: timed out waiting for the condition
"""


def test_a_refused_list_is_told_by_its_reflector() -> None:
    """Of the namespace that is asked for; another failure is no refusal."""
    assert list(refused_lists(LOG, "a")) == [(1795804853.269667, "keys")]


def test_a_mount_that_waited_in_vain_is_told_once() -> None:
    """The line that names the object, not that of its volume."""
    assert failed_mounts(LOG, "a") == [1795804854.461165]


def test_each_is_of_the_pod_that_was_bound_last() -> None:
    """A list 0.2 s behind the first binding, a mount 1.4 s behind it; nothing of the second pod."""
    pods = told([100.0, 103.0, 200.0], [(100.2, "keys"), (100.3, "settings"), (204.5, "keys")], [101.4])
    assert pods == [Pod(100.0, ("keys", "settings"), 1), Pod(103.0, (), 0), Pod(200.0, (), 0)]
    assert summary(pods) == {"pods": 3, "refused": 1, "failed_mounts": 1, "each_refused": [["keys", "settings"]]}
