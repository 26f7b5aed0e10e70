"""AdamW in fewer bytes: the same weights with whole moments, and as low a loss with 8 bits."""

import pytest
import torch
from torch import nn

from skillwright.policy.optimizer import (
    BLOCK,
    SMALLEST,
    LeanAdamW,
    check_optimizer,
    code_book,
    fill_optimizer,
)

torch.set_num_threads(1)  # networks this small only lose by more

RATE, DECAY = 2e-3, 0.01
INPUTS = torch.randint(0, 200, (800, 3), generator=torch.Generator().manual_seed(1))


def network(dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    layers = nn.Embedding(200, 64), nn.Flatten(), nn.Linear(192, 128), nn.GELU(), nn.Linear(128, 90)
    return nn.Sequential(*layers).to(dtype)


def answers():
    with torch.no_grad():
        return network(seed=7)(INPUTS).argmax(1)


def learn(net, optimizer, steps, first=0, of=300):
    """Take steps as a training does: a warm-up, a clipped gradient of a few rows, and a decay."""
    wanted = answers()
    for step in range(first, first + steps):
        rows = torch.randint(0, 800, (32,), generator=torch.Generator().manual_seed(step))
        nn.functional.cross_entropy(net(INPUTS[rows]).float(), wanted[rows]).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / 20) * (1 - step / of)
        optimizer.step()
        optimizer.zero_grad()


def loss(net):
    with torch.no_grad():
        return nn.functional.cross_entropy(net(INPUTS).float(), answers()).item()


def bytes_per_weight(net, optimizer):
    kept = sum(
        value.nbytes
        for state in optimizer.state.values()
        for name, value in state.items()
        if name != "step"
    )
    weights = list(net.parameters())
    return (sum(one.nbytes for one in weights) + kept) / sum(one.numel() for one in weights)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_with_whole_moments_it_is_adamw(dtype):
    ours, theirs = network(dtype), network(dtype)
    learn(ours, LeanAdamW(ours.parameters(), weight_decay=DECAY), 30)
    learn(theirs, torch.optim.AdamW(theirs.parameters(), lr=0.0, weight_decay=DECAY), 30)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-6)


def test_two_halves_are_the_float32_weight_bit_by_bit():
    half, whole = (nn.Parameter(torch.linspace(-2, 2, 6000).bfloat16()) for _ in range(2))
    whole = nn.Parameter(whole.detach().float())
    lean = [LeanAdamW([one], weight_decay=DECAY) for one in (half, whole)]
    for step in range(40):
        slope = torch.randn(6000, generator=torch.Generator().manual_seed(step)).bfloat16()
        half.grad, whole.grad = slope, slope.float()
        for one in lean:
            one.param_groups[0]["lr"] = 1e-5  # far below the spacing of bfloat16
            one.step()
        low = lean[0].state[half]["low"]
        bits = (half.detach().view(torch.int16).int() << 16) + low
        assert torch.equal(bits.view(torch.float32), whole.detach())
    assert torch.equal(half.detach().float(), whole.detach().bfloat16().float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_eight_bits_reach_the_loss_of_whole_moments_in_as_many_steps(dtype):
    before, exact, lean = network(), network(), network(dtype)
    learn(exact, torch.optim.AdamW(exact.parameters(), lr=0.0, weight_decay=DECAY), 300)
    optimizer = LeanAdamW(lean.parameters(), weight_decay=DECAY, eight_bit=True)
    learn(lean, optimizer, 300)
    assert loss(exact) < 0.3 * loss(before)
    assert loss(lean) == pytest.approx(loss(exact), rel=0.05)
    # Small layers keep whole moments, so there is a little more than for large ones.
    assert bytes_per_weight(lean, optimizer) < 6.3


def test_bfloat16_without_the_other_half_learns_less():
    half = network(torch.bfloat16)
    learn(half, torch.optim.AdamW(half.parameters(), lr=0.0, weight_decay=DECAY), 300)
    both = network(torch.bfloat16)
    learn(both, LeanAdamW(both.parameters(), weight_decay=DECAY), 300)
    assert loss(both) < 0.85 * loss(half)


@pytest.mark.parametrize("signed", [True, False])
def test_a_byte_stands_for_256_shares_over_seven_decades(signed):
    book = code_book(signed=signed)
    assert len(book) == 256 == len(book.unique())
    assert torch.equal(book, book.sort().values)
    assert book[-1] == 1
    assert 0 in book
    assert book[book > 0][0] < 1e-6
    assert bool((book < 0).any()) is signed


def test_a_moment_is_kept_to_a_share_of_its_block_and_a_root_never_to_nothing():
    weight = nn.Parameter(torch.zeros(SMALLEST * 2))
    optimizer = LeanAdamW([weight], eight_bit=True)
    # Every block has numbers of very different sizes, and one block nothing.
    sizes = torch.logspace(-9, 0, BLOCK).repeat(SMALLEST * 2 // BLOCK)
    sizes[:BLOCK] = 0
    weight.grad = sizes.clone()
    optimizer.step()
    state = optimizer.state[weight]
    book = code_book(signed=False)
    root = book[state["root_codes"].int()].view(-1, BLOCK) * state["root_scales"][:, None]
    exact = (sizes * 0.001**0.5).view(-1, BLOCK)
    assert not root[0].any()
    assert bool((root[1:] > 0).all())
    assert (root - exact).abs().max() < 0.04 * exact.max()
    large = exact > 1e-4 * exact.max()
    assert ((root - exact).abs() / exact)[large].max() < 0.6


def test_a_root_is_right_on_average():
    weight = nn.Parameter(torch.zeros(SMALLEST))
    optimizer = LeanAdamW([weight], betas=(0.9, 0.99), eight_bit=True)
    slope = torch.full((SMALLEST,), 0.3)
    slope[::BLOCK] = 1.0
    for _ in range(400):
        weight.grad = slope
        optimizer.step()
    state, book = optimizer.state[weight], code_book(signed=False)
    root = (book[state["root_codes"].int()].view(-1, BLOCK) * state["root_scales"][:, None])[:, 1:]
    assert root.mean().item() == pytest.approx(0.3 * (1 - 0.99**400) ** 0.5, rel=0.02)


@pytest.mark.parametrize("eight_bit", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_run_that_resumes_ends_bit_by_bit_as_it_would_have(eight_bit, dtype):
    whole = network(dtype)
    optimizer = LeanAdamW(whole.parameters(), eight_bit=eight_bit)
    learn(whole, optimizer, 12)
    other = network(dtype, seed=3)
    again = LeanAdamW(other.parameters(), eight_bit=eight_bit)
    learn(other, again, 2)  # what it remembers is replaced
    state = optimizer.state_dict()
    check_optimizer(again, state)
    fill_optimizer(again, state)
    other.load_state_dict(whole.state_dict())
    for net, one in ((whole, optimizer), (other, again)):
        learn(net, one, 8, first=12)
    for one, two in zip(whole.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)
        assert one.data_ptr() != two.data_ptr()


def test_a_weight_that_never_moved_has_nothing_to_remember():
    optimizer, other = (LeanAdamW([nn.Parameter(torch.zeros(3))], eight_bit=True) for _ in range(2))
    weight = other.param_groups[0]["params"][0]
    weight.grad = torch.ones(3)
    other.step()
    fill_optimizer(other, optimizer.state_dict())
    assert not other.state
    other.step()
    assert int(other.state[weight]["step"]) == 1


def test_eight_bits_do_not_take_over_whole_moments():
    whole, lean = (
        LeanAdamW([nn.Parameter(torch.zeros(SMALLEST))], eight_bit=one) for one in (False, True)
    )
    weight = whole.param_groups[0]["params"][0]
    weight.grad = torch.ones(SMALLEST)
    whole.step()
    with pytest.raises(ValueError, match="another shape, or in part"):
        check_optimizer(lean, whole.state_dict())
