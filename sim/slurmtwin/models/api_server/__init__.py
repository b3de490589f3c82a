"""The Kubernetes API in simulated time: objects, a store with versions and watches, clients, informers, work queues.

    objects     Pod, Node, Lease, StatefulSet ...: frozen dataclasses, shared by store, watches and caches. A changed
                object is a new one (`dataclasses.replace`); times are integer ns of the run, sizes are bytes
    server      ApiServer: what etcd and the API server hold. Its methods act at once, at the server:
                  get, list_of, create, update (needs the current resource_version, else ConflictError), update_status,
                  patch(kind, key, change), delete(kind, key, grace_ns), watch(kind, handler), stop, start
    client      Client: a process that talks to it. The same verbs with latency, client-side rate limit and network:
                  client.patch(Pod, key, change, done)    done(answer): the new object, or the ApiError
                  client.event("Pod/a", "Killing", "...")
    heartbeats  server.heartbeats: a kubelet's leases, of which only the end and the return are told:
                  heartbeats.cease(node, last_renewal_ns), heartbeats.resume(node)
    informer    Informer: list, then watch; `cache` lags the store by the watch's delay; handler changed(old, new)
    collector   rows of the event table; a kubelet says what it dates: server.stamp(container_started(pod, name, 0)),
                server.stamp(pod_fact(Kind.POD_READY, pod)), server.stamp(node_ready_fact(node, "True"))
    work_queue  WorkQueue: keys once each, workers, back-off per key

A kind is the class (`Pod`), a key is "namespace/name", or "name" where objects have no namespace. Everything is
callbacks on the run's environment; a client whose process ends or freezes hears no answer (engine/daemon_clock.py).

    env = Environment(); server = ApiServer(env)
    client = Client(server, env)                             # or the DaemonClock of a process
    pods = Informer(client, Pod, on_change, node="worker1")  # as a kubelet: only pods bound there
    client.create(Pod(meta=Meta(name="a", namespace="default"), spec=PodSpec()))
    client.patch(Pod, "default/a", lambda pod: replace(pod, status=replace(pod.status, phase="Running")))
"""
