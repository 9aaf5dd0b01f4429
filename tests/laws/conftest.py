"""How the laws run: no deadline for an example (a busy machine is no counter-example)."""

from hypothesis import HealthCheck, settings

settings.register_profile("laws", deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("laws")
