"""Text generation with a tiny GPT-2 of Hugging Face.

Six inference runs, one for each token: ``F``.
"""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(
    vocab_size=50,
    n_positions=32,
    n_embd=16,
    n_layer=2,
    n_head=2,
    bos_token_id=0,
    eos_token_id=49,
    pad_token_id=49,
)
model = GPT2LMHeadModel(config).eval()
prompt = torch.tensor([[1, 2, 3]])

tokens = model.generate(
    prompt,
    attention_mask=torch.ones_like(prompt),
    do_sample=True,
    min_new_tokens=6,
    max_new_tokens=6,
)

print("tokens", tokens[0].tolist())
