"""Many runs: a process pool whose results do not depend on its size, and the judging of recorded scenarios."""
