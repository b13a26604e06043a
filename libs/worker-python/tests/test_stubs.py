"""The committed stubs are those that the contract generates."""

import importlib.util
import pathlib
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent


class StubsTest(unittest.TestCase):
    def test_the_stubs_are_current(self) -> None:
        spec = importlib.util.spec_from_file_location("generate", ROOT / "generate.py")
        assert spec is not None
        assert spec.loader is not None
        generate = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(generate)
        self.assertEqual(generate.differing(), [])
        with mock.patch.object(generate, "PACKAGE", "something else"):
            self.assertEqual(generate.differing(), ["__init__.py"], "a difference is noticed")


if __name__ == "__main__":
    unittest.main()
