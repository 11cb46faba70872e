"""Write reviews.csv and train a tokenizer on it, in the folder tokenizer. Needs pip install 'fedtempo[transformers]'.

The reviews are made up: sentences about hotels, with a word of praise or complaint. Each city is a client, and some
cities complain more than others.
"""

import csv
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

CITIES = {"bergen": 0.2, "lyon": 0.4, "porto": 0.5, "turin": 0.6, "ghent": 0.8}
THINGS = ["room", "breakfast", "bed", "view", "staff", "lift", "pool", "price", "bath", "street"]
WORDS = {
    "good": ["lovely", "great", "clean", "friendly", "quiet"],
    "bad": ["awful", "dirty", "noisy", "rude", "broken"],
}
OTHER = {"good": "bad", "bad": "good"}


def review(rng: np.random.Generator, opinion: str) -> str:
    thing, other = rng.choice(THINGS, 2, replace=False)
    return f"we came for the {other} but the {thing} was {rng.choice(WORDS[opinion])}"


def main(folder: Path, per_city: int = 80) -> None:
    rng = np.random.default_rng(1)
    rows = [
        (city, review(rng, opinion), opinion)
        for city, share in CITIES.items()
        for opinion in rng.choice(["bad", "good"], per_city, p=[share, 1 - share])
    ]
    with (folder / "reviews.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("city", "review", "opinion"), *rows])
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    tokenizer = Tokenizer(models.WordLevel(unk_token=special["unk_token"]))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(special_tokens=list(special.values()))
    tokenizer.train_from_iterator((text for _, text, _ in rows), trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    wrapped.save_pretrained(folder / "tokenizer")


if __name__ == "__main__":
    main(Path(__file__).parent)
