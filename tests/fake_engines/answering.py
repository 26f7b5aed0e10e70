"""What both fakes do: a folder of weights is read, and answers are drawn token by token."""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM


class Held:
    """Weights of a folder, and what was answered with them, as a cache of prompts holds it."""

    def __init__(self, folder):
        assert {"config.json", "model.safetensors"} <= {one.name for one in Path(folder).iterdir()}
        self.folder, self.reads, self.known = folder, 0, {}
        self.noise = 0.0  # what its log-probabilities differ by from the policy's
        self.read()

    def read(self):
        self.model = AutoModelForCausalLM.from_pretrained(self.folder).eval()
        self.reads += 1

    def take(self, weights):
        found = {name: one.clone() for name, one in weights}
        self.model.load_state_dict(found, strict=True)
        self.reads += 1

    def forget(self):
        self.known.clear()

    def answer(self, prompt, *, temperature, longest, stop_ids, seed):
        """Answer as before to what was asked before, until `forget`."""
        asked = (tuple(prompt), temperature, longest, seed)
        if asked not in self.known:
            self.known[asked] = self._drawn(list(prompt), temperature, longest, stop_ids, seed)
        return self.known[asked]

    def _drawn(self, ids, temperature, longest, stop_ids, seed):
        random = torch.Generator().manual_seed(seed)
        begin, logprobs = len(ids), []
        while len(ids) < begin + longest:
            with torch.no_grad():
                logits = self.model(torch.tensor([ids])).logits[0, -1].float()
            if temperature:
                weights = (logits / temperature).softmax(-1)
                ids.append(int(torch.multinomial(weights, 1, generator=random)))
            else:
                ids.append(int(logits.argmax()))
            logprobs.append(float((logits / (temperature or 1.0)).log_softmax(-1)[ids[-1]]))
            if ids[-1] in stop_ids:
                break
        return ids[begin:], [one + self.noise for one in logprobs]
