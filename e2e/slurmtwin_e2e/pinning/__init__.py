"""The real kubelet's CPU, memory and topology managers as an oracle of pinning."""
