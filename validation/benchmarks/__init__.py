"""Benchmarks side by side with other software, ratios from one run on one machine.

    python -m validation.benchmarks.peers        time to a given true error, one problem a call
    python -m validation.benchmarks.tails        the same for small probabilities, by tilting
    python -m validation.benchmarks.gauss        the same for 4 to 10 coordinates, by Gauss rules
    python -m validation.benchmarks.throughput   problems a second, in batches
    python -m validation.benchmarks.derivatives  value and gradient, with autograd and differences
    python -m validation.benchmarks.one_factor   the loss -log P and its gradient, with torch
    python -m validation.benchmarks.factors      two and three common factors, with winning
    python -m validation.benchmarks.markov       Markov chains: errors, values, derivatives
    python -m validation.benchmarks.unions       complements to relative accuracy, with scipy
    python -m validation.benchmarks.polytopes    Pr(A X <= b), with plain draws and scipy
    python -m validation.benchmarks.student      Student t, with scipy
    python -m validation.benchmarks.quantiles    critical values and p-values, with R and scipy
    python -m validation.benchmarks.expected_max expected losses and improvements, with BoTorch
    python -m validation.benchmarks.moments      truncated moments, with the gradient and R
    python -m validation.benchmarks.exact        the loss of EXACT: time and memory
    python -m validation.benchmarks.training     its share of a training step, network by network
    python -m validation.benchmarks.gpu          on a CUDA device, beside the CPU and torch
    python -m validation.benchmarks.single_logit a network with one logit and with all of them
    python -m validation.benchmarks.scale        one large problem: phases, threads, memory
    python -m validation.benchmarks.point_sets   the comparison that chose the point set
    python -m validation.benchmarks.kernel       the Genz kernel and its floor
    python -m validation.benchmarks.sampling     acceptance and speed of exact draws
    python -m validation.benchmarks.probit       fits of probit models, and the likelihood with R
    python -m validation.benchmarks.startup      import, first call, compilation
    python -m validation.benchmarks.calls        one call with everything included, with scipy

All take ``--full`` (more time) and ``--json FILE`` (append the results as a line of JSON, of which
``python -m validation.cited update FILE`` takes the tables that docs cite), and everything runs in
one thread: set here, since numpy's libraries read it when they are loaded. Only ``gpu`` gives the
CPU all its cores.
"""

import os

os.environ.update(
    MVNORTH_NUM_THREADS="1", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1"
)
