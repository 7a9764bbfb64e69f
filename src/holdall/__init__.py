"""holdall gives a job all the resources it needs, or none: leases with fencing numbers, waiting that is bounded and explained."""
