"""`nn.pairs.view` as one Triton kernel: some hundred small operations on every pair, without a trip to memory for each.

It says the same as the reference in `nn.pairs`, to which tests hold it.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from beno.nn.half_plane import ROWS
from beno.nn.pairs import FEATURES, FLUX_REACH, GRAZING, LARGEST_GAIN, NEAREST, REACH, SMALLEST_ANGLE, TINY, View, table
from beno.problems.walls import Kind

PLACES, PANELS = 4, 64  # that one program looks at
PI: tl.constexpr = tl.constexpr(math.pi)


@triton.jit
def _atan2(y, x):
    """Abramowitz and Stegun 4.4.49: right to 2e-8."""
    ax, ay = tl.abs(x), tl.abs(y)
    t = tl.minimum(ax, ay) / tl.maximum(tl.maximum(ax, ay), 1e-30)
    s = t * t
    p = -0.0161657367 + s * 0.0028662257
    p = -0.0752896400 + s * (0.0429096138 + s * p)
    p = -0.1420889944 + s * (0.1065626393 + s * p)
    p = 1.0 + s * (-0.3333314528 + s * (0.1999355085 + s * p))
    angle = p * t
    angle = tl.where(ay > ax, PI / 2 - angle, angle)
    angle = tl.where(x < 0, PI - angle, angle)
    return tl.where(y < 0, -angle, angle)


@triton.jit
def _softplus(x):
    return tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def _lookup(values, away, along, inside, LAST: tl.constexpr):
    """What the grid adds, between the places of the table; nothing far away and behind."""
    along = tl.abs(along)
    row = tl.minimum(tl.maximum(away - 0.5, 0.0), LAST - 1.0)
    column = tl.minimum(along, LAST * 1.0)
    top = tl.minimum(tl.floor(row), LAST - 2.0)
    left = tl.minimum(tl.floor(column), LAST - 1.0)
    down, right = row - top, column - left
    at = (top * (LAST + 1) + left).to(tl.int32)
    here = inside & (away > 0) & (away <= LAST) & (along <= LAST)
    a = tl.load(values + at, mask=here, other=0.0)
    b = tl.load(values + at + 1, mask=here, other=0.0)
    c = tl.load(values + at + LAST + 1, mask=here, other=0.0)
    d = tl.load(values + at + LAST + 2, mask=here, other=0.0)
    upper, lower = a + right * (b - a), c + right * (d - c)
    return tl.where(here, upper + down * (lower - upper), 0.0)


@triton.jit
def _corner(
    away, to_corner, log_distance, log_straight, s, beside, angle, unlike,
    CORNER_REACH: tl.constexpr, FLUX: tl.constexpr, GAIN: tl.constexpr, EDGE: tl.constexpr, LEAST: tl.constexpr,
    GRAZE: tl.constexpr,
):  # fmt: skip
    """How strongly an end of a panel's wall is felt, what it adds to the measure, the measure, what a flux gains."""
    log_rho = 0.5 * tl.log(tl.maximum(to_corner * to_corner + away * away, LEAST))
    theta = _atan2(away, to_corner)
    theta = tl.where(theta < 0, theta + 2 * PI, theta)
    power = PI / angle
    slope = tl.where(unlike, power / 2, power)
    log_s = tl.log(s)
    rho_k, s_k = tl.exp(slope * log_rho), tl.exp(slope * log_s)
    turned = tl.minimum(tl.maximum(slope * theta, GRAZE), PI - EDGE)
    sine, cosine = tl.sin(turned / 2), tl.cos(turned / 2)
    gap = (rho_k - s_k) * (rho_k - s_k)
    near = tl.maximum(gap + 4 * rho_k * s_k * sine * sine, LEAST)
    far = tl.maximum(gap + 4 * rho_k * s_k * cosine * cosine, LEAST)
    weight = 1 / near + tl.where(unlike, 1 / far, 0.0)
    log_measure = tl.log(slope) + (slope - 1) * log_s + slope * log_rho + tl.log(tl.sin(turned) * weight)
    out = tl.minimum(away / tl.maximum(CORNER_REACH * beside, LEAST), 1e4)
    strength = tl.where(beside > 0, 1 / tl.sqrt(1 + out * out * out * out), 0.0)
    gain = tl.minimum(tl.maximum(log_measure - log_straight, -GAIN), GAIN)

    turned = tl.minimum(slope * theta, PI)
    sine, cosine = tl.sin(turned / 2), tl.cos(turned / 2)
    log_near = tl.log(tl.maximum(gap + 4 * rho_k * s_k * sine * sine, LEAST))
    log_far = tl.log(tl.maximum(gap + 4 * rho_k * s_k * cosine * cosine, LEAST))
    spread = log_near - 2 * log_distance + (2 - 2 * power) * FLUX
    like = tl.where(power > 1, _softplus(-spread), -_softplus(spread))
    like = tl.where(strength > 0, like, 0.0)
    flux = tl.where(unlike, strength * (log_far - log_near + 2 * log_distance), like) / (2 * PI)
    return strength, gain, log_measure, flux


@triton.jit
def _primitive(end, away):
    return 0.5 * end * tl.log(end * end + away * away) - end + away * _atan2(end, away)


# Longer than 60 lines: every pair is read once and all that is known of it is written at once.
@triton.jit
def _view_kernel(
    features, log_measure_out, distance_out, flux_out, corner_flux_before, corner_flux_after,
    places, centres, normals, lengths, ends, is_flux, dirichlet_table, neumann_table,
    count_places, count_panels,
    WITH_FLUX: tl.constexpr, WITH_DISTANCE: tl.constexpr, LAST: tl.constexpr, CLOSEST: tl.constexpr,
    CORNER_REACH: tl.constexpr, LOG_FLUX: tl.constexpr, GAIN: tl.constexpr, EDGE: tl.constexpr, LEAST: tl.constexpr,
    GRAZE: tl.constexpr, A: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    sample = tl.program_id(2).to(tl.int64)
    a = tl.program_id(0) * A + tl.arange(0, A)
    b = tl.program_id(1) * B + tl.arange(0, B)
    real_a, real_b = a < count_places, b < count_panels
    inside = real_a[:, None] & real_b[None, :]
    place = sample * count_places + a
    panel = sample * count_panels + b

    place_x = tl.load(places + 2 * place, mask=real_a, other=0.0)[:, None]
    place_y = tl.load(places + 2 * place + 1, mask=real_a, other=0.0)[:, None]
    centre_x = tl.load(centres + 2 * panel, mask=real_b, other=1.0)[None, :]
    centre_y = tl.load(centres + 2 * panel + 1, mask=real_b, other=1.0)[None, :]
    normal_x = tl.load(normals + 2 * panel, mask=real_b, other=1.0)[None, :]
    normal_y = tl.load(normals + 2 * panel + 1, mask=real_b, other=0.0)[None, :]
    length = tl.load(lengths + panel, mask=real_b, other=1.0)[None, :]
    own_flux = tl.load(is_flux + panel, mask=real_b, other=0)[None, :] != 0

    x, y = centre_x - place_x, centre_y - place_y
    away, along = x * normal_x + y * normal_y, y * normal_x - x * normal_y
    distance = tl.maximum(tl.sqrt(x * x + y * y), CLOSEST * length)
    in_front = away > 0
    seen_from = tl.where(in_front, tl.maximum(away, CLOSEST * length), length / 2)
    square = seen_from * seen_from + along * along
    log_angle = tl.log(_atan2(length * seen_from, square - length * length / 4) / PI)
    straight = log_angle + _lookup(dirichlet_table, away / length, along / length, inside, LAST)
    log_distance, log_straight = tl.log(distance), tl.log(seen_from / square)

    s0 = tl.load(ends + 8 * panel, mask=real_b, other=1.0)[None, :]
    s1 = tl.load(ends + 8 * panel + 1, mask=real_b, other=1.0)[None, :]
    beside0 = tl.load(ends + 8 * panel + 2, mask=real_b, other=0.0)[None, :]
    beside1 = tl.load(ends + 8 * panel + 3, mask=real_b, other=0.0)[None, :]
    angle0 = tl.load(ends + 8 * panel + 4, mask=real_b, other=3.0)[None, :]
    angle1 = tl.load(ends + 8 * panel + 5, mask=real_b, other=3.0)[None, :]
    sign0 = tl.load(ends + 8 * panel + 6, mask=real_b, other=0.0)[None, :]
    sign1 = tl.load(ends + 8 * panel + 7, mask=real_b, other=0.0)[None, :]
    own = tl.where(own_flux, 1.0, -1.0)
    to_corner0, to_corner1 = s0 - along, s1 + along
    strength0, gain0, measure0, flux0 = _corner(
        away, to_corner0, log_distance, log_straight, s0, beside0, angle0, own * sign0 < 0,
        CORNER_REACH, LOG_FLUX, GAIN, EDGE, LEAST, GRAZE,
    )  # fmt: skip
    strength1, gain1, measure1, flux1 = _corner(
        away, to_corner1, log_distance, log_straight, s1, beside1, angle1, own * sign1 < 0,
        CORNER_REACH, LOG_FLUX, GAIN, EDGE, LEAST, GRAZE,
    )  # fmt: skip
    log_share = tl.log(length / PI)
    around0 = tl.where(angle0 > PI, log_share + measure0, straight - GAIN)
    around1 = tl.where(angle1 > PI, log_share + measure1, straight - GAIN)
    behind = tl.maximum(around0, around1) + tl.log(1.0 + tl.exp(-tl.abs(around0 - around1)))
    gain0, gain1 = strength0 * gain0, strength1 * gain1
    log_measure = tl.where(in_front, straight + gain0 + gain1, behind)

    f0, f1, f2, f3 = 2 * away, 2 * along, 2 * distance, log_distance / 2
    f4, f5, f6, f7 = straight / 4, log_measure / 4, away / distance, along / distance
    f8, f9, f10 = in_front.to(tl.float32), gain0 / 2, gain1 / 2
    f11 = tl.minimum(tl.maximum(to_corner0, -1.0), 1.0)
    f12 = tl.minimum(tl.maximum(to_corner1, -1.0), 1.0)
    f13 = strength0 + strength1
    f14 = tl.minimum(tl.maximum(flux0, -1.0), 1.0)
    f15 = tl.minimum(tl.maximum(flux1, -1.0), 1.0)
    # Each join adds an innermost index: leaves stand in bit-reversed order, so that features end in their own.
    even = tl.join(tl.join(tl.join(f0, f8), tl.join(f4, f12)), tl.join(tl.join(f2, f10), tl.join(f6, f14)))
    odd = tl.join(tl.join(tl.join(f1, f9), tl.join(f5, f13)), tl.join(tl.join(f3, f11), tl.join(f7, f15)))
    together = tl.reshape(tl.join(even, odd), (A, B, 16))
    pair = place[:, None] * count_panels + b[None, :]
    feature = tl.arange(0, 16)
    tl.store(
        features + pair[:, :, None] * 16 + feature[None, None, :],
        together.to(features.dtype.element_ty),
        mask=inside[:, :, None],
    )
    tl.store(log_measure_out + pair, log_measure, mask=inside)
    if WITH_FLUX:
        near = tl.maximum(tl.abs(away) / length, CLOSEST)
        middle = along / length
        smooth = -(_primitive(middle + 0.5, near) - _primitive(middle - 0.5, near) + tl.log(length)) / PI
        kernel = smooth + _lookup(neumann_table, away / length, middle, inside, LAST)
        tl.store(flux_out + pair, kernel, mask=inside)
        tl.store(corner_flux_before + pair, flux0, mask=inside)
        tl.store(corner_flux_after + pair, flux1, mask=inside)
    if WITH_DISTANCE:
        tl.store(distance_out + pair, distance, mask=inside)


def fused_view(
    places: Tensor,
    centres: Tensor,
    normals: Tensor,
    lengths: Tensor,
    ends: Tensor,
    is_flux: Tensor,
    with_flux: bool,
    with_distance: bool,
    half: bool,
) -> View:
    """Features come in half precision if asked for, all else in single; what is not asked for is empty."""
    samples, count_places, _ = places.shape
    count_panels = centres.shape[1]
    shape = (samples, count_places, count_panels)
    new = {"dtype": torch.float32, "device": places.device}
    features = torch.empty(*shape, FEATURES, dtype=torch.bfloat16 if half else torch.float32, device=places.device)
    log_measure = torch.empty(shape, **new)
    empty = torch.empty(0, **new)
    distance = torch.empty(shape, **new) if with_distance else empty
    flux = torch.empty(shape, **new) if with_flux else empty
    corner_flux = torch.empty((2, *shape), **new) if with_flux else empty
    grid = (triton.cdiv(count_places, PLACES), triton.cdiv(count_panels, PANELS), samples)
    _view_kernel[grid](
        features, log_measure, distance, flux, *(corner_flux if with_flux else (empty, empty)),
        places.contiguous(), centres.contiguous(), normals.contiguous(), lengths.contiguous(), ends.contiguous(),
        is_flux.to(torch.uint8).contiguous(), table(Kind.DIRICHLET, places.device), table(Kind.NEUMANN, places.device),
        count_places, count_panels,
        WITH_FLUX=with_flux, WITH_DISTANCE=with_distance, LAST=ROWS, CLOSEST=NEAREST, GRAZE=GRAZING,
        CORNER_REACH=REACH, LOG_FLUX=math.log(FLUX_REACH),
        GAIN=LARGEST_GAIN, EDGE=SMALLEST_ANGLE, LEAST=TINY, A=PLACES, B=PANELS, num_warps=4,
    )  # fmt: skip
    return View(features, log_measure, distance, flux, corner_flux)
