"""Position codes against numbers computed outside the project."""

import pytest
import torch

from variations.configuration.transformer import PositionsConfig
from variations.models.transformer.positions import Learned, Sinusoidal, sinusoids

EXACT = {"rtol": 0, "atol": 1e-7}

PAPER_D8 = [
    [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0],
    [
        0.8414709848078965,
        0.5403023058681398,
        0.09983341664682815,
        0.9950041652780258,
        0.009999833334166664,
        0.9999500004166653,
        0.0009999998333333417,
        0.9999995000000417,
    ],
    [
        0.9092974268256817,
        -0.4161468365471424,
        0.19866933079506122,
        0.9800665778412416,
        0.01999866669333308,
        0.9998000066665778,
        0.0019999986666669333,
        0.9999980000006666,
    ],
]
T2T_D8_POSITION_1 = [
    0.8414709848078965,
    0.04639922346473126,
    0.0021544330233656027,
    9.999999983333325e-05,
    0.5403023058681398,
    0.9989229760406304,
    0.9999976792064809,
    0.999999995,
]


def test_paper_form_d8():
    torch.testing.assert_close(sinusoids(3, 8), torch.tensor(PAPER_D8), **EXACT)


def test_paper_form_d512():
    code = sinusoids(101, 512)
    first = [-0.5440211108893698, -0.8390715290764524, -0.22002318546840618, -0.9754946426589617]
    torch.testing.assert_close(code[10, :4], torch.tensor(first), **EXACT)
    torch.testing.assert_close(code[10, 254:256], torch.tensor([0.1034777302653366, 0.9946317707268023]), **EXACT)
    torch.testing.assert_close(code[100, -2:], torch.tensor([0.01036614362306455, 0.9999462700897414]), **EXACT)


def test_t2t_form():
    torch.testing.assert_close(sinusoids(2, 8, "t2t")[1], torch.tensor(T2T_D8_POSITION_1), **EXACT)
    ten = sinusoids(11, 512, "t2t")[10]
    torch.testing.assert_close(ten[:2], torch.tensor([-0.5440211108893698, -0.21869538963160562]), **EXACT)
    assert float(ten[256]) == pytest.approx(-0.8390715290764524, abs=1e-7)


@pytest.mark.parametrize("form", ["paper", "t2t"])
def test_sinusoids_have_no_longest_sentence(form):
    positions = Sinusoidal(PositionsConfig(form=form), 16)
    torch.testing.assert_close(positions(250, 800), sinusoids(1050, 16, form)[250:], rtol=0, atol=0)
    torch.testing.assert_close(positions(0, 3), sinusoids(3, 16, form), rtol=0, atol=0)


def test_a_table_grown_while_testing_serves_training():
    positions = Sinusoidal(PositionsConfig(), 16)
    with torch.inference_mode():
        positions(0, 600)
    x = torch.ones(600, 16, requires_grad=True)
    ((x * 2 + positions(0, 600)) ** 2).sum().backward()
    assert torch.isfinite(x.grad).all()


def test_sinusoids_are_no_parameters_and_are_not_stored():
    assert not list(Sinusoidal(PositionsConfig(), 16).parameters())
    assert not Sinusoidal(PositionsConfig(), 16).state_dict()


def test_learned_positions_beyond_the_table_read_its_last_row():
    positions = Learned(PositionsConfig(max_length=5), 8)
    code = positions(3, 4)
    assert torch.equal(code, positions.table[[3, 4, 4, 4]])
    assert torch.equal(positions(100, 1)[0], positions.table[4])


def test_learned_positions_start_with_standard_deviation_of_d_to_minus_a_half():
    torch.manual_seed(0)
    table = Learned(PositionsConfig(max_length=256), 256).table.detach()
    assert float(table.std()) == pytest.approx(256**-0.5, rel=0.02)  # 65,536 draws: 0.3 %
    assert abs(float(table.mean())) < 4 * 256**-0.5 / 256
