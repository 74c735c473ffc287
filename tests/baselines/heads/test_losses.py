"""Losses of the heads against loops in float64: value, gradient, and the least value there is."""

import math

import numpy as np
import pytest
import torch
from tests.oracles import heads as oracle

from unbend.baselines.heads.gcc import assignment_loss, degrees, graph_contrast
from unbend.baselines.heads.imc import information_loss, logit_excess
from unbend.baselines.heads.losses import class_contrast, consistency, marginal_entropy
from unbend.baselines.heads.nnm import nnm_loss
from unbend.baselines.heads.scan import scan_loss
from unbend.baselines.heads.self_labels import confident_loss
from unbend.baselines.heads.spice import (
    double_softmax_loss,
    fixmatch_loss,
    prototype_labels,
    reliable,
)
from unbend.baselines.heads.temi import pair_weights, temi_loss
from unbend.baselines.heads.turtle import fit_classifiers, outer_loss, soft_labels

B, K = 7, 3
FLOOR = math.log(1 + (K - 1) / math.e)  # of cross entropy to the identity of cosines in [0, 1]


def logits(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(*shape, generator=generator, dtype=torch.float64)


def some(n, *, seed=0, k=K):
    """n different tables of logits (B, k)."""
    return [logits(B, k, seed=seed + i) for i in range(n)]


def check(ours, truth, inputs, constant=()):
    """Value, and gradient in every input against central differences of the oracle.

    ``ours`` gets logits with a dimension of heads, ``truth`` gets plain tables; two heads with
    the same logits must both give the oracle's value. No gradient may reach the inputs at the
    positions ``constant``.
    """
    stacked = [torch.stack([x, x]).requires_grad_() for x in inputs]
    losses = ours(*stacked)
    value = truth(*(x.numpy() for x in inputs))
    assert losses.detach().numpy() == pytest.approx([value, value], rel=1e-10)
    gradients = torch.autograd.grad(losses[0], stacked, allow_unused=True)
    step = 1e-6
    for i, gradient in enumerate(gradients):
        if i in constant:
            assert gradient is None or not gradient.any()
            continue
        direction = logits(*inputs[i].shape, seed=99)
        ends = []
        for sign in (1, -1):
            moved = [x.numpy() for x in inputs]
            moved[i] = (inputs[i] + sign * step * direction).numpy()
            ends.append(truth(*moved))
        slope = (ends[0] - ends[1]) / (2 * step)
        assert float((gradient[0] * direction).sum()) == pytest.approx(slope, rel=1e-5, abs=1e-8)
        assert not gradient[1].any()  # heads share nothing


def soft(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_scan_matches_its_formula():
    check(
        lambda a, b: scan_loss(a.log_softmax(-1), b.log_softmax(-1), 5.0),
        lambda a, b: oracle.scan_oracle(soft(a), soft(b), 5.0),
        some(2),
    )


def test_assignment_loss_matches_its_formula():
    check(
        lambda a, b: assignment_loss(a.log_softmax(-1), b.log_softmax(-1), 2.0),
        lambda a, b: oracle.assignment_oracle(soft(a), soft(b), 2.0),
        some(2),
    )


def test_nnm_matches_its_formula():
    """The stored probabilities are constant: their gradient is none."""
    inputs = some(5)

    def truth(*tables):
        return oracle.nnm_oracle(*(soft(x) for x in tables), 5.0)

    check(lambda *x: nnm_loss(*(t.log_softmax(-1) for t in x), 5.0), truth, inputs, constant=[4])


def test_information_matches_its_formula():
    U = logits(B, 5, seed=7).softmax(1)
    check(
        lambda a: information_loss(a.softmax(-1), U, 4.0),
        lambda a: oracle.information_oracle(soft(a), U.numpy(), 4.0),
        some(1),
    )


def test_logit_excess_matches_its_formula():
    """Only logits outside ±bound count, each with slope one over the batch."""

    def truth(a):
        return sum(max(0.0, abs(float(x)) - 1.5) for x in a.flat) / len(a)

    check(lambda a: logit_excess(a, 1.5), truth, some(1))


def test_temi_matches_its_formula():
    """Only the student has a gradient."""
    prior, weights = logits(K, seed=5).softmax(0), logits(B, seed=6).sigmoid()

    def ours(s, t):
        log_prior = prior.log().expand(2, 1, K)
        return temi_loss(s.log_softmax(-1), t.log_softmax(-1), log_prior, weights, 0.6)

    check(
        ours,
        lambda s, t: oracle.temi_oracle(soft(s), soft(t), prior.numpy(), weights.numpy(), 0.6),
        some(2),
        constant=[1],
    )


def test_pair_weights_are_the_mean_agreement_of_all_heads():
    q_x, q_y = logits(2, B, K).softmax(-1), logits(2, B, K, seed=1).softmax(-1)
    expected = [np.mean([sum(q_x[h, i] * q_y[h, i]) for h in range(2)]) for i in range(B)]
    np.testing.assert_allclose(pair_weights(q_x, q_y), expected, rtol=1e-12)


def test_double_softmax_matches_its_formula():
    labels = (logits(B, K, seed=8) > 0).double()
    check(
        lambda a: double_softmax_loss(a.softmax(-1), labels.expand(2, B, K)),
        lambda a: oracle.double_softmax_oracle(soft(a), labels.numpy()),
        some(1),
    )


def test_confident_loss_matches_its_formula():
    """The threshold lets some samples through; nothing reaches the plain probabilities."""
    inputs = some(2)
    sure = int((inputs[1].softmax(-1).amax(-1) > 0.8).sum())
    assert 0 < sure < B
    check(
        lambda s, p: confident_loss(s.log_softmax(-1), p.softmax(-1), 0.8),
        lambda s, p: oracle.confident_oracle(soft(s), soft(p), 0.8),
        inputs,
        constant=[1],
    )
    assert float(confident_loss(inputs[0][None], torch.full((1, B, K), 1 / K), 0.9)) == 0


def test_fixmatch_matches_its_formula():
    labels = torch.eye(K, dtype=torch.float64)[torch.arange(B) % K]
    check(
        lambda a, w, s: fixmatch_loss(
            a.log_softmax(-1), labels, w.log_softmax(-1), s.log_softmax(-1), 0.8
        ),
        lambda a, w, s: oracle.fixmatch_oracle(soft(a), labels.numpy(), soft(w), soft(s), 0.8),
        some(3, seed=1),
        constant=[1],
    )


def test_pseudo_labels_are_those_of_the_nearest_to_each_prototype():
    P = logits(2, 12, K).softmax(-1)
    Z = torch.nn.functional.normalize(logits(12, 5, seed=2), dim=1)
    labels = prototype_labels(P, Z)
    for head in range(2):
        np.testing.assert_array_equal(labels[head], oracle.prototype_oracle(P[head], Z))
    assert (labels.sum(1) == 4).all()  # 12 samples, 3 clusters of one size


def test_reliable_samples_agree_with_their_neighbours_and_are_cut_to_one_size():
    generator = torch.Generator().manual_seed(0)
    P = (3 * logits(60, K)).softmax(-1)
    neighbors = torch.randint(60, (60, 4), generator=generator)
    good = oracle.reliable_oracle(neighbors.tolist(), P.tolist(), 0.4, 0.6)
    chosen = reliable(neighbors, P, 0.4, 0.6, generator).tolist()
    least = min(map(len, good.values()))
    assert 0 < least < max(map(len, good.values()))
    for members in good.values():
        assert len(members & set(chosen)) == least
    assert len(chosen) == K * least
    P[P.argmax(1) == 0] = 1 / K  # the first cluster has no sure sample left
    assert not len(reliable(neighbors, P, 0.4, 0.6, generator))


def test_degrees_count_the_neighbours_in_either_direction():
    neighbors = torch.randint(20, (20, 3), generator=torch.Generator().manual_seed(1))
    neighbors = torch.cat([torch.arange(20)[:, None], neighbors], 1)
    sets = [set(row) for row in neighbors.tolist()]
    truth = [len(own | {j for j in range(20) if i in sets[j]}) for i, own in enumerate(sets)]
    assert degrees(neighbors).tolist() == truth


def test_graph_contrast_matches_its_formula():
    positive = torch.eye(B, dtype=torch.bool)
    positive[0, 1] = positive[1, 0] = positive[2, 5] = positive[5, 2] = True
    degree = torch.tensor([2.0, 5, 1, 1, 1, 3, 1], dtype=torch.float64)
    Z = [torch.nn.functional.normalize(x, dim=1) for x in some(2)]
    one, other = (z.clone().requires_grad_() for z in Z)
    loss = graph_contrast(one, other, positive, degree, 0.5)

    def truth(a, b):
        return oracle.graph_contrast_oracle(a, b, positive.tolist(), degree.tolist(), 0.5)

    assert float(loss.detach()) == pytest.approx(truth(*(z.numpy() for z in Z)), rel=1e-10)
    gradients = torch.autograd.grad(loss, [one, other])
    direction = logits(B, K, seed=3)
    for i, gradient in enumerate(gradients):
        ends = []
        for sign in (1, -1):
            moved = [z.numpy() for z in Z]
            moved[i] = (Z[i] + sign * 1e-6 * direction).numpy()
            ends.append(truth(*moved))
        slope = (ends[0] - ends[1]) / 2e-6
        assert float((gradient * direction).sum()) == pytest.approx(slope, rel=1e-5)


def test_turtle_outer_loss_matches_its_formula():
    """Two spaces; the gradient is that of the labels of each, and none of the classifiers."""
    classifiers = some(2, seed=10)

    def ours(a, b):
        return outer_loss(classifiers, [a.softmax(-1), b.softmax(-1)], 10.0)

    def truth(a, b):
        return oracle.turtle_oracle([c.numpy() for c in classifiers], [soft(a), soft(b)], 10.0)

    check(ours, truth, some(2))


def test_turtle_classifiers_are_those_of_autograd():
    """The gradient that is written out, against torch's own Adam on the cross entropy.

    Two labellings are fitted at once, and neither changes the classifier of the other.
    """
    Z, target = logits(20, 4), logits(2, 20, K, seed=1).softmax(-1)
    start = 0.1 * logits(2, K, 4, seed=2)
    (ours,) = fit_classifiers([Z], target, [start.clone()], 10, [1e-2])
    for r in range(2):
        W = start[r].clone().requires_grad_()
        optimizer = torch.optim.Adam([W], 1e-2)
        for _ in range(10):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(Z @ W.T, target[r]).backward()
            optimizer.step()
        torch.testing.assert_close(ours[r], W.detach(), rtol=1e-9, atol=1e-12)


def test_turtle_labels_are_the_softmax_of_a_weight_normalised_map():
    """torch's own weight normalisation of a linear layer with offset, value and gradient."""
    Z = torch.cat([logits(B, 4), torch.ones(B, 1, dtype=torch.float64)], 1)
    V, gain, bias = (
        logits(2, K, width, seed=i).requires_grad_() for i, width in enumerate((4, 1, 1))
    )
    (tau,) = soft_labels([Z], [(V, gain, bias)])
    for r in range(2):
        layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, K).double())
        values = layer.parametrizations.weight
        with torch.no_grad():
            values.original0.copy_(gain[r])
            values.original1.copy_(V[r])
            layer.bias.copy_(bias[r, :, 0])
        truth = layer(Z[:, :-1]).softmax(1)
        torch.testing.assert_close(tau[r], truth)
        slope = torch.autograd.grad(truth[:, 0].sum(), [values.original1, values.original0])
        ours = torch.autograd.grad(tau[r][:, 0].sum(), [V, gain], retain_graph=True)
        for own, theirs in zip(ours, slope, strict=True):
            torch.testing.assert_close(own[r], theirs)


# ------------------------------------------------------------------ known optima


def certain(n_each=4):
    """One-hot probabilities of K clusters of one size, as logarithms."""
    P = torch.eye(K, dtype=torch.float64).repeat_interleave(n_each, 0)
    return P, P.clamp_min(1e-300).log()


def test_optimum_of_each_loss_is_at_equal_certain_clusters():
    """The least values that the docstrings state; anything else costs more."""
    P, log_p = certain()
    U = torch.eye(2 * K, dtype=torch.float64).repeat_interleave(2, 0)
    uniform = torch.full_like(P, 1 / K)
    assert float(scan_loss(log_p, log_p, 5.0)) == pytest.approx(-5 * math.log(K))
    assert float(assignment_loss(log_p, log_p, 2.0)) == pytest.approx(FLOOR)
    four = [log_p] * 4
    assert float(nnm_loss(*four, None, 5.0)) == pytest.approx(FLOOR - 5 * math.log(K))
    assert float(nnm_loss(*four, log_p, 5.0)) == pytest.approx(2 * FLOOR - 5 * math.log(K))
    assert float(information_loss(P, U, 4.0)) == pytest.approx(-4 * math.log(K))
    assert float(double_softmax_loss(P, P)) == pytest.approx(FLOOR)
    assert float(outer_loss([1e3 * P], [P], 10.0)) == pytest.approx(-10 * math.log(K))
    for seed in range(5):
        other = logits(len(P), K, seed=seed)
        assert float(scan_loss(other.log_softmax(1), other.log_softmax(1), 5.0)) > -5 * math.log(K)
        assert float(assignment_loss(other.log_softmax(1), other.log_softmax(1), 2.0)) > FLOOR
        assert float(information_loss(other.softmax(1), U, 4.0)) > -4 * math.log(K)
    assert float(information_loss(uniform, U, 4.0)) == pytest.approx(-3 * math.log(K))


def test_temi_of_equal_certain_clusters_is_minus_log_k():
    """With prior 1/k and β = 1: the mutual information of k equal clusters, log k nats."""
    P, log_p = certain()
    prior = torch.full((1, 1, K), -math.log(K), dtype=torch.float64)
    loss = temi_loss(log_p[None], log_p[None], prior, torch.ones(len(P)), 1.0)
    assert float(loss) == pytest.approx(-math.log(K))


def test_steps_that_learn_labels_cost_nothing_when_all_is_right():
    """Self-labelling and FixMatch: certain and right answers are the least cost, zero."""
    P, log_p = certain()
    assert float(confident_loss(log_p[None], P[None], 0.9)) == 0
    certain_p = log_p[None].clamp_min(-1e3)
    assert float(fixmatch_loss(certain_p, P, certain_p, certain_p, 0.9)) == 0


def test_graph_contrast_of_orthogonal_pairs():
    """Equal positives at right angles to all negatives: log(2(b - 1)) - 1/τ, for equal degrees."""
    Z = torch.eye(B, dtype=torch.float64)
    same = torch.eye(B, dtype=torch.bool)
    least = math.log(2 * (B - 1)) - 1 / 0.5
    assert float(graph_contrast(Z, Z, same, torch.ones(B), 0.5)) == pytest.approx(least)
    other = torch.nn.functional.normalize(Z + 0.1 * logits(B, B), dim=1)
    assert float(graph_contrast(Z, other, same, torch.ones(B), 0.5)) > least


def test_loss_terms_are_finite_at_extreme_probabilities():
    """Disjoint certain pairs and empty clusters give finite values and gradients."""
    a = torch.tensor([[500.0, -500.0, -500.0]] * 4).requires_grad_()
    b = torch.tensor([[-500.0, 500.0, -500.0]] * 4)
    loss = consistency(a.log_softmax(1), b.log_softmax(1)) + class_contrast(
        a.softmax(1), b.softmax(1)
    )
    loss = loss - marginal_entropy(a.softmax(1))
    (gradient,) = torch.autograd.grad(loss, a)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()
    assert gradient.abs().sum() > 0
    assert float(logit_excess(torch.tensor([[6.0, -7.0, 1.0]]), 5.0)) == 3.0
