"""Tests without an engine: python3 -m unittest."""

import struct
import unittest

import numpy

import backend
import weir_worker


def header(world, slots, slot_bytes, completions, records, outputs):
    return struct.pack("=4I", weir_worker.MAGIC, weir_worker.VERSION, world, slots) + struct.pack("=4Q", slot_bytes, completions, records, outputs)


class Layout(unittest.TestCase):
    """The test vectors of docs/worker-abi.md."""

    def memory(self):
        control, inputs = bytearray(12288), bytearray(24576)
        control[:48] = header(3, 2, 4096, 256, 384, 4096)
        return weir_worker.Memory(control, inputs)

    def test_vectors(self):
        m = self.memory()
        far = 2**32 + 5
        self.assertEqual((m.slot(3), m.slot(far)), (0, 0))
        self.assertEqual(weir_worker.completion(3, weir_worker.DONE), 0x0000000100000003)
        self.assertEqual(weir_worker.completion(far, weir_worker.DONE), 0x0000000100000005)
        self.assertEqual((m.completion_offset(0), m.completion_offset(1)), (256, 320))
        self.assertEqual((m.record_offset(0, 0), m.record_offset(1, 1)), (384, 384 + 3 * 64))
        self.assertEqual((m.output_offset(2), m.input_offset(3, 0)), (12288, 24576))

    def test_a_tile(self):
        m = self.memory()
        self.assertFalse(m.arrived(3))
        for rank in range(3):
            at = m.record_offset(rank, 0)
            m.control[at : at + 40] = numpy.frombuffer(struct.pack("=4Q2I", 3, 7, 8, 12, weir_worker.DATA_TYPES.index("int32"), 0), numpy.uint8)
        self.assertTrue(m.arrived(3))
        tile = m.tile(3)
        self.assertEqual((tile.call, tile.call_bytes, tile.data_type, tile.op), (7, 12, "int32", "sum"))
        self.assertEqual((len(tile.inputs), len(tile.out)), (3, 8))
        self.assertTrue(m.complete(3))
        self.assertEqual(struct.unpack_from("=Q", m.control, 256), (0x0000000100000003,))
        m.control[256:264] = numpy.frombuffer(struct.pack("=Q", weir_worker.completion(5, weir_worker.FAILED)), numpy.uint8)
        self.assertFalse(m.complete(5), "a tile that was given up was completed")

    def test_ranks_that_disagree(self):
        m = self.memory()
        for rank in range(3):
            at = m.record_offset(rank, 0)
            m.control[at : at + 40] = numpy.frombuffer(struct.pack("=4Q2I", 1, 1, 8 + 4 * (rank == 2), 12, 0, 0), numpy.uint8)
        self.assertIsNone(m.tile(1))


class Results(unittest.TestCase):
    """What is computed, where numpy alone would do something else."""

    def reduce(self, data_type, op, *inputs, dtype=None):
        arrays = [numpy.array(i, dtype or data_type).view(numpy.uint8) for i in inputs]
        out = numpy.empty_like(arrays[0])
        backend.Adder().reduce(weir_worker.Tile(1, len(out), data_type, op, arrays, out))
        return out.view(dtype or data_type).tolist()

    def test_averages_are_divided_towards_zero(self):
        self.assertEqual(self.reduce("int32", "avg", [-7, 7], [0, 0]), [-3, 3])
        self.assertEqual(self.reduce("uint8", "avg", [200], [100]), [22])  # of the sum as it wrapped

    def test_a_nan_gives_way_to_a_number(self):
        nan = float("nan")
        self.assertEqual(self.reduce("float32", "min", [nan, 2], [1, nan]), [1, 2])

    def test_sixteen_bits_are_rounded_once(self):
        # 2048 + 1 + 1 in float16 is 2048 if every sum is rounded.
        self.assertEqual(self.reduce("float16", "sum", [2048], [1], [1]), [2050])
        one, tiny = 0x3F80, 0x3B80  # 1 and 2^-8 in bfloat16, whose sum lies half-way to the next number
        self.assertEqual(self.reduce("bfloat16", "sum", [one], [tiny], [tiny], dtype=numpy.uint16), [0x3F81])
        self.assertEqual(self.reduce("bfloat16", "sum", [one], [tiny], dtype=numpy.uint16), [0x3F80])


if __name__ == "__main__":
    unittest.main()
