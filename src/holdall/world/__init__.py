"""Closed systems for explorer and simulator: hosts with their machines, clients, network, faults, properties."""
