"""Tensors whose memory a collective cannot work on: parts of others, expanded ones, several that share memory."""

import torch

from ._errors import Invalid


def plain(tensor):
    """Whether memory from the tensor's address on holds its values, one after the other."""
    if tensor.layout != torch.strided:
        return True  # has no such memory; who is given it has its own rules
    return tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj()


def overlap(tensors):
    """Whether two of the tensors may share memory."""
    spans = sorted(span for span in map(_span, tensors) if span is not None)
    return any(now[0] == then[0] and then[1] < now[2] for now, then in zip(spans, spans[1:]))


def _span(tensor):
    """(device, first byte, byte behind the last) of a tensor; None if it has no memory."""
    if tensor.layout != torch.strided or tensor.numel() == 0:
        return None
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride()))
    first = tensor.data_ptr()
    return str(tensor.device), first, first + (last + 1) * tensor.element_size()


def private(tensors):
    """For each tensor what a collective may work on: the tensor itself, or a copy of its values. All copies are made before any
    result is written, so that each of several tensors with the same memory gives the values of before and gets its own result."""
    alone = len(tensors) == 1 or not overlap(tensors)
    return [tensor if alone and plain(tensor) else copied(tensor) for tensor in tensors]


def copied(tensor):
    """The tensor's values in memory of their own."""
    if tensor.layout != torch.strided:
        return tensor.clone()
    return tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)


def put(tensor, values):
    """Writes values into a tensor. Elements that share memory must get the same."""
    if tensor is values:
        return
    with torch.inference_mode(tensor.is_inference()), torch.no_grad():
        one, its = tensor.detach(), values
        if tensor.layout == torch.strided:
            for dim, (n, stride) in enumerate(zip(tensor.shape, tensor.stride())):
                if stride == 0 and n > 1:  # torch does not write to an expanded tensor
                    one, its = one.narrow(dim, 0, 1), its.narrow(dim, 0, 1)
        one.copy_(its)
        if _folded(tensor) and not _same(copied(tensor), values):
            raise Invalid(
                f"elements of the tensor (shape {list(tensor.shape)}, strides {list(tensor.stride())}) share memory, and the collective "
                "has different results for them; give a tensor of its own: tensor.contiguous()"
            )


def _same(a, b):
    return bool(((a == b) | ((a != a) & (b != b))).all())  # what is no number is the same as another


def _folded(tensor):
    """Whether elements of a tensor may share memory."""
    if tensor.layout != torch.strided:
        return False
    reach = 1
    for stride, n in sorted((stride, n) for n, stride in zip(tensor.shape, tensor.stride()) if n > 1):
        if stride < reach:
            return tensor.numel() > 0
        reach += (n - 1) * stride
    return False


def substitute(value, alone):
    """A collective's argument, a tensor or lists of them, with copies where the memory is not plain, or, if the tensors are not
    alone in theirs, of all; and the pairs of tensor and copy."""
    pairs = []

    def given(part):
        if isinstance(part, torch.Tensor):
            if alone and plain(part):
                return part
            copy = copied(part)
            pairs.append((part, copy))
            return copy
        return [given(each) for each in part] if isinstance(part, (list, tuple)) else part

    return given(value), pairs
