"""Models in PyTorch as functions for `specdec_harness.tape`. Nothing here imports torch before a
model is used.

- `causal_lm`: a causal language model of transformers, as target or as draft model.
- `early_exit`: the target's own first layers as draft model.
- `dspark`: a DSpark head of DeepSpec, read from its folder.
- `eagle3`: an EAGLE-3 head of SafeAILab or speculators, read from its folder.
- `candidate_generator`: the MTP and DFlash drafters of transformers.
"""

from specdec_harness.adapters._dspark import dspark
from specdec_harness.adapters._eagle3 import eagle3
from specdec_harness.adapters._generators import candidate_generator
from specdec_harness.adapters._transformers import causal_lm, early_exit

__all__ = ["candidate_generator", "causal_lm", "dspark", "eagle3", "early_exit"]
