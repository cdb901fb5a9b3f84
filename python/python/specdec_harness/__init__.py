"""Is a speculative decoder exact?

p is the target's distribution after all sampling settings, q the draft's; a *round* drafts K
tokens, accepts some of them and adds one token of the target's.

- `certify`: whether a verifier that you wrote is exact, by enumeration or by sampling, and which
  known bug it has if not; `exact` for `assert` in tests.
- `verify`: one of the production verifiers, on arrays.
- `audit`: whether completions were drawn from the target's distribution, and which bug explains
  them if not.
- `forecast`: what drafts, rules and K would accept, from log p and log q of completions.
- `load`: the results folder of a run as data frames.
- `plot`, `table`: figures and tables of runs, tapes and forecasts for papers; `latex` for LaTeX.

Everything takes numpy arrays, or what numpy can make arrays of: tensors, columns of polars and
pandas, lists.
"""

from specdec_harness._audit import AuditVerdict, audit
from specdec_harness._certify import Bug, Certificate, Sampling, Witness, certify, exact
from specdec_harness._columns import Columns
from specdec_harness._core import Rng
from specdec_harness._forecast import forecast
from specdec_harness._plot import latex, plot, table
from specdec_harness._results import Run, load
from specdec_harness._verify import Verified, VerifierInfo, verifiers, verify

__all__ = [
    "AuditVerdict",
    "Bug",
    "Certificate",
    "Columns",
    "Rng",
    "Run",
    "Sampling",
    "Verified",
    "VerifierInfo",
    "Witness",
    "audit",
    "certify",
    "exact",
    "forecast",
    "latex",
    "load",
    "plot",
    "table",
    "verifiers",
    "verify",
]
