"""FNO is what its paper says, on every grid, and meets each frequency with the weights of that frequency."""

import numpy as np
import pytest
import torch

from beno.datasets.metadata import Metadata
from beno.datasets.scales import Scales
from beno.models.fno import FNO, FNOConfig, FourierLayer
from beno.problems.families import Family
from beno.problems.walls import Kind
from beno.support.errors import BenoError
from tests.learning import batches_for, small_model, solutions_of
from tests.models.plain import assert_is_the_formula, gelu, linear


def fno(weights, config, problem, scales):
    """Li et al., 2021: a matrix for each of the lowest waves, of positive and negative frequency along x, with a dense
    transform. Those of negative frequency along y are the conjugates of others, for what is real."""
    domain, panels, walls = problem.domain, problem.domain.panels, problem.walls
    n, frequency, cell = domain.resolution, np.arange(-config.modes, config.modes), np.arange(domain.resolution)
    inside = tuple(np.floor(domain.points * n).astype(int).T)
    behind = panels.centres - panels.normals / (2 * n)  # the cell behind each panel
    beside = np.linalg.norm(domain.points[:, None] - behind, axis=2) < 0.1 / n

    def mean_of_walls(values):
        return [values[here].mean() if here.any() else 0 for here in beside]

    columns = [problem.f / scales.source, mean_of_walls(problem.g / scales.boundary), beside.any(axis=1)]
    if config.coefficient:
        columns += [np.log(problem.law.coefficient)]
    if config.kinds:
        columns += [mean_of_walls(values) for values in (walls.alpha, *(walls.kind == kind for kind in Kind))]
    picture = np.full((n, n, len(columns)), config.outside)
    picture[inside] = np.column_stack(columns)
    place = np.stack(np.meshgrid(cell, cell, indexing="ij"), axis=-1)
    x = linear(weights, "lift", np.concatenate([picture, ((place + 0.5) / n - 0.5) * 12**0.5], axis=2))

    along = np.exp(2j * np.pi * np.outer(frequency, cell) / n)
    waves = np.einsum("kx,ly->klxy", along, along[config.modes :])
    with_conjugate = np.where(np.arange(config.modes) == 0, 1, 2)
    for layer in (f"layers.{number}" for number in range(config.layers)):
        x = gelu(x) if layer != "layers.0" else x
        positive, negative = weights[f"{layer}.weight"][0] + 1j * weights[f"{layer}.weight"][1]
        matrices = np.concatenate([negative, positive], axis=2)
        spectrum = np.einsum("klxy,xyi->kli", waves.conj(), x) / n**2
        spectrum = np.einsum("iokl,kli,l->klo", matrices, spectrum, with_conjugate)
        x = np.einsum("klxy,klo->xyo", waves, spectrum).real + linear(weights, f"{layer}.pointwise", x)
    return linear(weights, "project.2", gelu(linear(weights, "project.0", x)))[inside][:, 0]


@pytest.mark.parametrize("equation, boundary", [("poisson", "dirichlet"), ("darcy", "mixed")])
def test_it_is_what_its_paper_says(equation, boundary):
    solutions = solutions_of(2, equation=equation, boundary=boundary)
    assert_is_the_formula(small_model("fno", Family(equation, boundary)), fno, solutions, Scales.fit(solutions))


def signed_frequency_by_frequency(layer, x):
    """The layer as a sum over signed frequencies: kx from -m to m - 1, ky from 0 to m - 1 with its conjugate."""
    n, stored = x.shape[-1], layer.modes
    modes = min(stored, n // 2)
    real, imaginary = layer.weight.detach().double().numpy()
    positive, negative = real + 1j * imaginary  # (in, out, kx, ky); the last row of `negative` is of frequency -1
    spectrum = np.fft.fft2(x.numpy().astype(float)) / n**2
    out = np.zeros((len(x), layer.weight.shape[3], n, n))
    cells = np.arange(n)
    for kx in range(-modes, modes):
        for ky in range(modes):
            matrix = positive[:, :, kx, ky] if kx >= 0 else negative[:, :, stored + kx, ky]
            amplitude = np.einsum("si,io->so", spectrum[:, :, kx, ky], matrix)
            wave = np.exp(2j * np.pi * (kx * cells[:, None] + ky * cells[None, :]) / n)
            part = (amplitude[:, :, None, None] * wave).real
            out += part if ky == 0 else 2 * part  # twice: -ky is its conjugate
    return out + layer.pointwise(x).detach().numpy()


@pytest.mark.parametrize("modes", [3, 12])
@pytest.mark.parametrize("n", [8, 9, 16, 20, 24, 32])
def test_every_frequency_meets_its_own_weights_however_coarse_the_grid(n, modes):
    torch.manual_seed(0)
    layer, x = FourierLayer(2, modes), torch.randn(2, 2, n, n)
    expected = signed_frequency_by_frequency(layer, x)
    np.testing.assert_allclose(layer(x).detach(), expected, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize("n", [16, 20])
def test_a_coarse_grid_and_a_fine_one_agree_on_a_field_that_both_can_hold(n):
    """What the layer makes of waves that a coarse grid has does not depend on the grid."""
    torch.manual_seed(0)
    layer = FourierLayer(1, 12)

    def field(cells):
        x, y = (2 * np.pi * axis / cells for axis in np.meshgrid(np.arange(cells), np.arange(cells), indexing="ij"))
        waves = np.cos(x) + np.sin(2 * x - y) + 0.5 * np.cos(3 * x + 2 * y) - np.sin(4 * x - 3 * y)
        return torch.as_tensor(waves, dtype=torch.float32)[None, None]

    coarse, fine = (layer(field(cells)) for cells in (n, 2 * n))
    torch.testing.assert_close(coarse, fine[..., ::2, ::2], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("corners", [0, 4])
def test_outside_a_domain_it_has_a_large_number(corners):
    """As the appendix of BENO's paper has it; a whole square has no outside."""
    model, nothing = small_model("fno"), small_model("fno", outside=0.0)
    solutions = solutions_of(1, corners=corners)
    batch = batches_for(model, solutions, Scales.fit(solutions)).batch()
    assert model.config.outside > batch.channels.abs().max()
    with torch.no_grad():
        change = (model(batch) - nothing(batch))[batch.inside].abs().max()
    assert change > 1e-2 if corners else change == 0


def test_it_sees_where_the_boundary_is():
    model = small_model("fno")
    batch = batches_for(model, solutions_of(2)).batch()
    with torch.no_grad():
        before = model(batch)
        batch.channels[:, 2] = 1 - batch.channels[:, 2]
        assert (model(batch) - before).abs().max() > 1e-4


@pytest.mark.parametrize("setting", ["modes", "layers", "projection"])
def test_sizes_of_zero_are_refused(setting):
    with pytest.raises(BenoError, match=f"{setting} is 0; it must be at least 1"):
        FNOConfig.from_settings({setting: 0})


class TestWeightsOfVersion1:
    """They had the negative frequencies of a coarse grid in the first rows, where a fine grid has others."""

    @staticmethod
    def upgraded(resolution, modes, version=1):
        torch.manual_seed(0)
        model = FNO(FNOConfig(width=2, layers=2, modes=modes))
        data = Metadata.of_family(Family(resolution=resolution), 0, 1)
        tensors = {f"model.{name}": tensor.clone() for name, tensor in model.state_dict().items()}
        return tensors, FNO.upgraded(tensors, version, model.config, data)

    @pytest.mark.parametrize(("resolution", "modes"), [(24, 12), (32, 12), (8, 4)])
    def test_trained_on_a_grid_that_has_all_modes_they_stay(self, resolution, modes):
        before, after = self.upgraded(resolution, modes)
        assert all(torch.equal(after[name], tensor) for name, tensor in before.items())

    @pytest.mark.parametrize(("resolution", "modes"), [(16, 12), (8, 12), (9, 5)])
    def test_trained_on_a_coarser_one_their_first_rows_become_the_last(self, resolution, modes):
        before, after = self.upgraded(resolution, modes)
        had = resolution // 2
        for name, tensor in before.items():
            if not name.endswith("weight") or tensor.ndim != 6:
                assert torch.equal(after[name], tensor)
                continue
            assert torch.equal(after[name][:, 0], tensor[:, 0])
            assert torch.equal(after[name][:, 1, ..., -had:, :], tensor[:, 1, ..., :had, :])

    def test_those_of_this_version_stay(self):
        before, after = self.upgraded(8, 12, version=2)
        assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
