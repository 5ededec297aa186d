"""The front door: the log evidence of a model, how far it may be off, and what to think of it."""

from .evidence import evidence as evidence
from .from_draws import evidence_from_draws as evidence_from_draws
from .with_model import with_model as with_model
