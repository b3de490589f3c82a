package main

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Container is one container's requests: CPU in thousandths, sizes in bytes.
type Container struct {
	Name        string `json:"name"`
	MilliCPU    int64  `json:"cpu_milli"`
	Memory      int64  `json:"memory"`
	HugePages   int64  `json:"hugepages_2mi"`
	Restartable bool   `json:"restartable"`
}

// Pod is a pod whose limits equal its requests where it is Guaranteed.
type Pod struct {
	UID        string      `json:"uid"`
	Guaranteed bool        `json:"guaranteed"`
	Init       []Container `json:"init"`
	Containers []Container `json:"containers"`
}

func (p *Pod) object() *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.UID, Namespace: "default", UID: types.UID(p.UID)}}
	for _, container := range p.Init {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container.object(p.Guaranteed))
	}
	for _, container := range p.Containers {
		pod.Spec.Containers = append(pod.Spec.Containers, container.object(p.Guaranteed))
	}
	return pod
}

func (c *Container) object(guaranteed bool) v1.Container {
	requests := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(c.MilliCPU, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(c.Memory, resource.BinarySI),
	}
	if c.HugePages > 0 {
		requests["hugepages-2Mi"] = *resource.NewQuantity(c.HugePages, resource.BinarySI)
	}
	container := v1.Container{Name: c.Name, Resources: v1.ResourceRequirements{Requests: requests}}
	if guaranteed {
		container.Resources.Limits = requests.DeepCopy()
	}
	if c.Restartable {
		always := v1.ContainerRestartPolicyAlways
		container.RestartPolicy = &always
	}
	return container
}
